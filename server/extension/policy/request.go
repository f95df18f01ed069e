package policy

import (
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
)

// newRequest returns the variable request of an expression: an AdmissionRequest of admission.k8s.io/v1 without its uid and
// objects, as upstream gives it. It is written as canonical JSON, whose members are in the order of their names: each
// request that a policy judges has one.
func newRequest(a *admission.Attributes, as target) *document.Document {
	w := writer{make([]byte, 0, 1024)}
	w.raw("{\"dryRun\":").raw(strconv.FormatBool(a.DryRun))
	w.raw(",\"kind\":").kind(as.kind)
	w.member("name", a.Name)
	w.member("namespace", a.Namespace)
	w.raw(",\"operation\":").text(string(a.Operation))
	if a.Options != nil {
		w.raw(",\"options\":")
		w.b = append(w.b, a.Options.Bytes()...)
	}
	w.raw(",\"requestKind\":").kind(a.Kind)
	w.raw(",\"requestResource\":").resource(a.Resource)
	w.member("requestSubResource", a.Subresource)
	w.raw(",\"resource\":").resource(as.resource)
	w.member("subResource", a.Subresource)
	w.raw(",\"uid\":\"\",\"userInfo\":").user(a.User)
	w.raw("}")
	return document.FromCanonical(w.b)
}

// writer appends JSON.
type writer struct{ b []byte }

func (w *writer) raw(s string) *writer {
	w.b = append(w.b, s...)
	return w
}

func (w *writer) text(s string) *writer {
	w.b = document.AppendString(w.b, s)
	return w
}

// member leaves out what is empty, as the JSON form of an AdmissionRequest does. It is not the first.
func (w *writer) member(name, value string) {
	if value != "" {
		w.raw(",").text(name).raw(":").text(value)
	}
}

func (w *writer) kind(k schema.GroupVersionKind) {
	w.raw("{\"group\":").text(k.Group).raw(",\"kind\":").text(k.Kind).raw(",\"version\":").text(k.Version).raw("}")
}

func (w *writer) resource(r schema.GroupVersionResource) {
	w.raw("{\"group\":").text(r.Group).raw(",\"resource\":").text(r.Resource).raw(",\"version\":").text(r.Version).raw("}")
}

func (w *writer) texts(list []string) {
	w.raw("[")
	for i, s := range list {
		if i > 0 {
			w.raw(",")
		}
		w.text(s)
	}
	w.raw("]")
}

func (w *writer) user(u user.Info) {
	w.raw("{")
	if u != nil {
		start := len(w.b)
		next := func(name string) *writer {
			if len(w.b) > start {
				w.raw(",")
			}
			return w.text(name).raw(":")
		}
		if extra := u.GetExtra(); len(extra) > 0 {
			next("extra").raw("{")
			for i, key := range slices.Sorted(maps.Keys(extra)) {
				if i > 0 {
					w.raw(",")
				}
				w.text(key).raw(":").texts(extra[key])
			}
			w.raw("}")
		}
		if groups := u.GetGroups(); len(groups) > 0 {
			next("groups").texts(groups)
		}
		for _, m := range [...]struct{ name, value string }{{"uid", u.GetUID()}, {"username", u.GetName()}} {
			if m.value != "" {
				next(m.name).text(m.value)
			}
		}
	}
	w.raw("}")
}
