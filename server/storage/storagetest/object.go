// Package storagetest is the suite that every storage.Interface passes. Run runs all
// of it; each RunTest function can be called alone too:
//
//	func TestCreate(t *testing.T) {
//		storagetest.RunTestCreate(t.Context(), t, newStorage(t))
//	}
//
// The storage must keep the rows below Prefix, use storage.JSONCodec and be empty.
package storagetest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
)

const (
	// Root is the prefix of all keys.
	Root = "/registry"
	// Prefix is where the objects of the suite are.
	Prefix = Root + "/configmaps/"
	// ForeignPrefix is where a test puts objects of another resource, which the
	// storage under test must not show below Prefix.
	ForeignPrefix = Root + "/configmapsx/"
)

// Object is an object of the suite, in the manner of a ConfigMap.
type Object struct {
	Namespace, Name, UID string
	// ResourceVersion is absent where 0.
	ResourceVersion uint64
	Labels          map[string]string
	Data            map[string]string
}

// NewObject returns the object of that name in the namespace "test".
func NewObject(name string) Object {
	return Object{Namespace: "test", Name: name, UID: "uid-" + name}
}

// Key returns the whole key of o.
func (o Object) Key() string { return Prefix + o.Namespace + "/" + o.Name }

// With returns o with one more datum.
func (o Object) With(key, value string) Object {
	data := map[string]string{key: value}
	for k, v := range o.Data {
		if k != key {
			data[k] = v
		}
	}
	o.Data = data
	return o
}

// Labelled returns o with one more label.
func (o Object) Labelled(key, value string) Object {
	set := map[string]string{key: value}
	for k, v := range o.Labels {
		if k != key {
			set[k] = v
		}
	}
	o.Labels = set
	return o
}

// At returns o at the resourceVersion rv.
func (o Object) At(rv uint64) Object {
	o.ResourceVersion = rv
	return o
}

// JSON returns o as canonical JSON.
func (o Object) JSON() []byte {
	meta := map[string]any{"name": o.Name, "namespace": o.Namespace, "uid": o.UID}
	if o.ResourceVersion != 0 {
		meta["resourceVersion"] = strconv.FormatUint(o.ResourceVersion, 10)
	}
	if len(o.Labels) > 0 {
		meta["labels"] = o.Labels
	}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
	if len(o.Data) > 0 {
		object["data"] = o.Data
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		panic(err) // maps of strings always encode
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// Attrs is the storage.AttrFunc of the suite's objects. Their data can be selected as
// fields data.<key>.
func Attrs(value []byte) (labels.Set, fields.Set, error) {
	var o struct {
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Data map[string]string
	}
	if err := json.Unmarshal(value, &o); err != nil {
		return nil, nil, err
	}
	f := fields.Set{"metadata.name": o.Metadata.Name, "metadata.namespace": o.Metadata.Namespace}
	for k, v := range o.Data {
		f["data."+k] = v
	}
	return o.Metadata.Labels, f, nil
}

// Select returns a predicate of a label selector and a field selector; "" selects all.
func Select(t testing.TB, labelSelector, fieldSelector string) storage.SelectionPredicate {
	t.Helper()
	l, err := labels.Parse(labelSelector)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fields.ParseSelector(fieldSelector)
	if err != nil {
		t.Fatal(err)
	}
	return storage.SelectionPredicate{Label: l, Field: f, GetAttrs: Attrs}
}
