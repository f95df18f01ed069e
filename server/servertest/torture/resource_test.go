package torture_test

import (
	"encoding/json"
	"strconv"
)

// resource is what the objects of a run are.
type resource struct {
	plural, kind string
	// creates: an update makes an object that is not there.
	creates bool
	// fields has what is particular to the kind: a value, which a write gives, and more bytes.
	fields func(value, pad string) map[string]any
}

var (
	configMaps = &resource{plural: "configmaps", kind: "ConfigMap", fields: func(value, pad string) map[string]any {
		return map[string]any{"data": map[string]string{"v": value, "pad": pad}}
	}}
	// events go by themselves.
	events = &resource{plural: "events", kind: "Event", creates: true, fields: func(value, pad string) map[string]any {
		return map[string]any{"reason": value, "message": pad,
			"involvedObject": map[string]string{"kind": "Pod", "namespace": namespace, "name": "p"}}
	}}
)

// path of the collection.
func (r *resource) path() string { return "/api/v1/namespaces/" + namespace + "/" + r.plural }

// stored is the prefix of the objects in etcd.
func (r *resource) stored() string { return "/registry/" + r.plural + "/" + namespace + "/" }

// body is an object as it is sent. resourceVersion and uid are left out where they are not known. more is added to
// the metadata.
func (r *resource) body(o object, pad string, more ...[2]string) string {
	meta := map[string]any{"name": o.key, "labels": map[string]string{"side": o.side}}
	if o.rv != 0 {
		meta["resourceVersion"] = strconv.FormatInt(o.rv, 10)
	}
	if o.uid != "" {
		meta["uid"] = o.uid
	}
	for _, m := range more {
		meta[m[0]] = m[1]
	}
	out := r.fields(o.value, pad)
	out["apiVersion"], out["kind"], out["metadata"] = "v1", r.kind, meta
	return encode(out)
}

// patch is the merge patch that gives an object a value.
func (r *resource) patch(o object, pad string) string {
	out := r.fields(o.value, pad)
	out["metadata"] = map[string]any{"labels": map[string]string{"side": o.side}}
	return encode(out)
}

func encode(of any) string {
	out, err := json.Marshal(of)
	if err != nil {
		panic(err) // strings only
	}
	return string(out)
}
