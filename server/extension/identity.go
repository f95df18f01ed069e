package extension

import (
	"strings"

	"weir.dev/weir/abi/document"
)

// identity are the fields by which the server, and those who are allowed to write it, know
// an object. No rule or module may change them: the object would be stored in the place of
// another, or as what it is not.
var identity = [...][]string{ // never written to
	{"apiVersion"}, {"kind"},
	{"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
}

// identityChange names the first field of its identity in which obj differs from old.
func identityChange(old, obj *document.Document) string {
	for _, path := range identity {
		if !obj.Get(path...).Equal(old.Get(path...)) {
			return strings.Join(path, ".")
		}
	}
	return ""
}

// isIdentity reports whether a path leads to a field of an object's identity.
func isIdentity(path []step) bool {
	for _, id := range identity {
		if fieldPath(path) == strings.Join(id, ".") {
			return true
		}
	}
	return false
}

// unchanged returns the old object where the new one is equal to it.
func unchanged(old, obj *document.Document) *document.Document {
	if obj.Equal(old) {
		return old
	}
	return obj
}
