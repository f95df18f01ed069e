package endpoints

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
)

// typeMeta takes apiVersion and kind from the items of a list of a built-in kind, which says them once for all. Upstream's items
// are without them, as they are structs in Go whose TypeMeta nobody sets, and clients compare objects with what they have
// listed. The items of custom resources have them, there and here.
//
// Nothing is parsed or copied. Members are in order, and metadata comes right after kind. Where other members come before one
// of the two it is looked for as it is spelled, from the nearer end, which cannot be a part of a string: these have no bare
// quotes. It is the object's own: no member that comes before apiVersion has one, and metadata and what comes after it in those
// kinds holds no object of the kind.
type typeMeta struct {
	// usual is how objects begin that have no member before kind but apiVersion, as most kinds do.
	usual []byte
	// version is apiVersion with its comma, kind is kind with a comma before it up to the first of metadata.
	version, kind []byte
	// kindSize is how much of kind goes.
	kindSize int
}

func newTypeMeta(gvk schema.GroupVersionKind) *typeMeta {
	version, kind := `"apiVersion":"`+gvk.GroupVersion().String()+`",`, `"kind":"`+gvk.Kind+`",`
	return &typeMeta{
		usual: []byte("{" + version + kind), version: []byte(version), kind: []byte("," + kind + `"metadata":{`), kindSize: len(kind),
	}
}

// cut appends the pieces of an object without its first brace, its apiVersion and its kind.
func (t *typeMeta) cut(dst [][]byte, obj *document.Document) [][]byte {
	at := len(dst)
	dst = obj.Pieces(dst)
	if len(dst) == at {
		return dst
	}
	// What is shared with other texts is in metadata.
	text := dst[at]
	if rest, ok := bytes.CutPrefix(text, t.usual); ok {
		dst[at] = rest
		return dst
	}
	version, kind := t.find(text)
	if kind < 0 {
		return append(dst[:at], bytes.TrimPrefix(withoutTypeMeta(obj), openBrace))
	}
	dst[at] = text[kind+t.kindSize:]
	if between := text[version+len(t.version) : kind]; len(between) > 0 {
		dst = slices.Insert(dst, at, between)
	}
	if before := text[1:version]; len(before) > 0 {
		dst = slices.Insert(dst, at, before)
	}
	return dst
}

// find returns where apiVersion and kind are of an object that does not begin as usual, below zero where they are not found.
func (t *typeMeta) find(text []byte) (version, kind int) {
	if bytes.HasPrefix(text, openBrace) && bytes.HasPrefix(text[1:], t.version) {
		version = 1
	} else if version = bytes.Index(text, t.version); version <= 0 || text[version-1] != ',' {
		return -1, -1
	}
	if kind = lastIndex(text, t.kind); kind < version {
		return -1, -1
	}
	return version, kind + 1
}

// lastIndex is bytes.LastIndex for what is near the end and begins with ,": it goes by the byte after that, which is rare.
func lastIndex(text, of []byte) int {
	rare := of[2:]
	for near := 512; ; near *= 4 {
		from := max(0, len(text)-near)
		found := -1
		for i := from; ; i++ {
			n := bytes.Index(text[i:], rare)
			if n < 0 {
				break
			}
			if i += n; i >= 2 && bytes.HasPrefix(text[i-2:], of) {
				found = i - 2
			}
		}
		if found >= 0 || from == 0 {
			return found
		}
	}
}

// withoutTypeMeta returns an object that is in no usual form; one that cannot be read as it is.
func withoutTypeMeta(obj *document.Document) []byte {
	text := obj.Bytes()
	parsed, err := document.Parse(text)
	if err != nil {
		return text
	}
	bare, err := parsed.Edit().Delete("apiVersion").Delete("kind").Document()
	if err != nil {
		return text
	}
	return bare.Bytes()
}

// openBrace begins an object. It is never written to.
var openBrace = []byte("{")
