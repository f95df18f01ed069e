package extension

import "weir.dev/weir/abi/document"

// unchanged returns the old object where the new one is equal to it.
func unchanged(old, obj *document.Document) *document.Document {
	if obj.Equal(old) {
		return old
	}
	return obj
}
