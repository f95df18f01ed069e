package policy

import (
	"hash/fnv"

	"weir.dev/weir/server/admission"
)

// enforces reports whether a binding does what its policy says, or only watches. It is the same for all requests about one
// object: those of an object that is created, which has no uid yet, go by its namespace and name.
func (b *Binding) enforces(a *admission.Attributes) bool {
	switch {
	case b.Shadow:
		return false
	case b.Percent == nil || *b.Percent >= 100:
		return true
	}
	h := fnv.New32a()
	if uid := uidOf(a); uid != "" {
		_, _ = h.Write([]byte(uid))
	} else {
		_, _ = h.Write([]byte(a.Namespace + "/" + admission.NameOf(a)))
	}
	return int32(h.Sum32()%100) < *b.Percent
}

func uidOf(a *admission.Attributes) string {
	if a.OldObject != nil {
		return a.OldObject.Get("metadata", "uid").String()
	}
	return ""
}
