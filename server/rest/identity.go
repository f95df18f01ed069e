package rest

import (
	"strings"

	"weir.dev/weir/abi/document"
)

// identity are the fields by which the server, and those who are allowed to write it, know
// an object. No rule, module or policy may change them: the object would be stored in the place of
// another, or as what it is not.
var identity = [...][]string{ // never written to
	{"apiVersion"}, {"kind"},
	{"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
}

// IdentityChange names the first field of its identity in which obj differs from old, "" where there is none.
func IdentityChange(old, obj *document.Document) string {
	for _, path := range identity {
		if !obj.Get(path...).Equal(old.Get(path...)) {
			return strings.Join(path, ".")
		}
	}
	return ""
}

// IsIdentity reports whether a path, such as metadata.name, leads to a field of an object's identity.
func IsIdentity(path string) bool {
	for _, id := range identity {
		if path == strings.Join(id, ".") {
			return true
		}
	}
	return false
}
