package weir

import (
	"weir.dev/weir/abi"
	"weir.dev/weir/sdk/go/internal/codec"
)

// View reads single fields of a document, which the host looks up. A path is
// spelled spec.containers[0].image or metadata.labels['app.kubernetes.io/name'];
// the empty one is the whole. A path that does not parse makes the hook fail.
type View struct {
	ctx  *Context
	slot abi.Slot
}

// Has tells whether there is a value at the path; null is one.
func (v View) Has(path string) bool {
	if v.ctx.inputs[v.slot] != nil && path == "" {
		return true
	}
	n := v.ctx.host.Query(v.slot, path, nil)
	if n < 0 && n != -int(abi.ENOENT) {
		panic(failure("query " + v.slot.String() + " " + path + ": " + errno(n)))
	}
	return n >= 0
}

// Raw returns the canonical JSON at the path, nil if there is none. Two equal
// values have equal bytes. With [*] in the path it is an array of all matches.
// The caller must not change it.
func (v View) Raw(path string) []byte {
	if path == "" {
		return v.ctx.read(v.slot)
	}
	return v.ctx.query(v.slot, path)
}

// String returns the string at the path, "" if there is none.
func (v View) String(path string) string {
	s, _ := codec.String(v.Raw(path))
	return s
}

// Int returns the integer at the path, 0 if there is none.
func (v View) Int(path string) int64 {
	n, _ := codec.Int(v.Raw(path))
	return n
}

// Bool tells whether there is true at the path.
func (v View) Bool(path string) bool { return string(v.Raw(path)) == "true" }

// Strings returns the strings of the array at the path, or of all matches if
// there is a [*] in it.
func (v View) Strings(path string) []string {
	var all []string
	for _, raw := range codec.Elements(v.Raw(path)) {
		if s, ok := codec.String(raw); ok {
			all = append(all, s)
		}
	}
	return all
}

// Decode decodes the value at the path into a pointer. It is false if there is
// none. The error is that it does not fit.
func (v View) Decode(path string, into any) (bool, error) {
	// A type is got to know even if there is nothing to decode, so that calls
	// that warm the module up do so.
	v.ctx.codec.Learn(into)
	var raw []byte
	if path == "" {
		raw = v.ctx.readOutline(v.slot, v.ctx.codec.Outline(into))
	} else {
		raw = v.Raw(path)
	}
	if raw == nil {
		return false, nil
	}
	return true, v.ctx.codec.Decode(raw, into)
}

// MustDecode is Decode for a hook that has no use for an object that does not
// fit: its sender is told where, or if it is another document the hook fails.
func (v View) MustDecode(path string, into any) bool {
	found, err := v.Decode(path, into)
	if err != nil {
		v.ctx.undecodable(v.slot, Path(path), err)
	}
	return found
}
