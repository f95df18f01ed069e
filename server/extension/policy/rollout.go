package policy

import (
	"hash/fnv"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// enforces reports whether a binding does what its policy says, or only watches. It is the same for all requests about one
// object.
func (b *Binding) enforces(a *admission.Attributes) bool {
	switch {
	case b.Shadow:
		return false
	case b.Percent == nil || *b.Percent >= 100:
		return true
	}
	namespace, name := identity(a)
	h := fnv.New32a()
	_, _ = h.Write([]byte(namespace + "/" + name))
	return int32(h.Sum32()%100) < *b.Percent
}

// identity is what all requests about one object know of it. That is not its uid, which it has only once it is created.
// An object that is made from a generateName goes by that: what changes it at its creation does not know its name yet.
// So all that one controller makes from one template is treated alike, and a controller that is refused
// does not try until it has a name that passes. What knows nothing but a name goes by that: a subresource of another
// kind, and an object whose generateName was taken away.
func identity(a *admission.Attributes) (namespace, name string) {
	if !isNamespaces(a) { // a namespace is in itself, but only once it has a name
		namespace = a.Namespace
	}
	object := a.OldObject
	if object == nil {
		object = a.Object
	}
	if object != nil {
		if prefix := rest.MetaOf(object).GenerateName(); prefix != "" {
			return namespace, prefix
		}
	}
	return namespace, admission.NameOf(a)
}
