package rest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
)

// Meta is a view of an object's metadata. It reads through the document and decodes
// nothing that is not asked for. A member that is absent, null or of another type
// than ObjectMeta says reads as its zero value.
type Meta struct{ v document.Value }

// MetaOf returns the view of obj's metadata. A nil obj has none.
func MetaOf(obj *document.Document) Meta {
	if obj == nil {
		return Meta{}
	}
	return Meta{obj.Get("metadata")}
}

// Value returns the metadata as it is.
func (m Meta) Value() document.Value { return m.v }

// Name returns metadata.name.
func (m Meta) Name() string { return m.text("name") }

// GenerateName returns metadata.generateName.
func (m Meta) GenerateName() string { return m.text("generateName") }

// Namespace returns metadata.namespace.
func (m Meta) Namespace() string { return m.text("namespace") }

// UID returns metadata.uid.
func (m Meta) UID() types.UID { return types.UID(m.text("uid")) }

// ResourceVersion returns metadata.resourceVersion.
func (m Meta) ResourceVersion() string { return m.text("resourceVersion") }

// Generation returns metadata.generation, 0 when the object has none.
func (m Meta) Generation() int64 {
	n, _ := m.v.Get("generation").Int()
	return n
}

// CreationTimestamp returns metadata.creationTimestamp as it is written (RFC 3339).
func (m Meta) CreationTimestamp() string { return m.text("creationTimestamp") }

// Deleting reports whether the object has a deletionTimestamp.
func (m Meta) Deleting() bool { return m.text("deletionTimestamp") != "" }

// DeletionTimestamp returns when the object is or was to be deleted; false
// when no deletion was requested.
func (m Meta) DeletionTimestamp() (time.Time, bool) {
	text := m.text("deletionTimestamp")
	if text == "" {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// DeletionGracePeriodSeconds returns metadata.deletionGracePeriodSeconds; false when there is none.
func (m Meta) DeletionGracePeriodSeconds() (int64, bool) {
	return m.v.Get("deletionGracePeriodSeconds").Int()
}

// HasFinalizers reports whether there is at least one finalizer.
func (m Meta) HasFinalizers() bool {
	f := m.v.Get("finalizers")
	return f.Kind() == document.Array && f.Len() > 0
}

// Finalizers returns metadata.finalizers, nil when there are none.
func (m Meta) Finalizers() []string {
	if !m.HasFinalizers() {
		return nil
	}
	f := m.v.Get("finalizers")
	out := make([]string, 0, f.Len())
	for _, e := range f.Elements() {
		out = append(out, e.String())
	}
	return out
}

// Label returns one label, "" when it is not set.
func (m Meta) Label(key string) string { return m.v.Get("labels", key).String() }

// Labels returns metadata.labels, nil when there are none.
func (m Meta) Labels() labels.Set { return m.stringMap("labels") }

// Annotation returns one annotation, "" when it is not set.
func (m Meta) Annotation(key string) string { return m.v.Get("annotations", key).String() }

// Annotations returns metadata.annotations, nil when there are none.
func (m Meta) Annotations() map[string]string { return m.stringMap("annotations") }

func (m Meta) text(name string) string { return m.v.Get(name).String() }

func (m Meta) stringMap(name string) map[string]string {
	v := m.v.Get(name)
	if v.Kind() != document.Object || v.Len() == 0 {
		return nil
	}
	out := make(map[string]string, v.Len())
	for k, e := range v.Members() {
		out[k] = e.String()
	}
	return out
}

// KindOf returns the group, version and kind that obj says it is of.
func KindOf(obj *document.Document) schema.GroupVersionKind {
	if obj == nil {
		return schema.GroupVersionKind{}
	}
	return schema.FromAPIVersionAndKind(obj.Get("apiVersion").String(), obj.Get("kind").String())
}

// Timestamp spells t as metadata does: RFC 3339 in UTC, whole seconds.
func Timestamp(t time.Time) string { return metav1.NewTime(t).UTC().Format(time.RFC3339) }
