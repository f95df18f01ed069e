package endpoints

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// The kinds that an object can be asked for as, by `as` in Accept.
const (
	kindTable       = "Table"
	kindPartial     = "PartialObjectMetadata"
	kindPartialList = "PartialObjectMetadataList"
)

// respond answers with an object of the stored version, in the form agreed.
func (s *server) respond(ctx context.Context, w http.ResponseWriter, req *http.Request, sc *scope, out output, code int, stored *document.Document) error {
	obj, err := sc.fromStored(ctx, stored)
	if err != nil {
		return err
	}
	if out.convert == nil {
		writeDocument(w, req, out, code, obj)
		return nil
	}
	var chunks [][]byte
	switch out.convert.Kind {
	case kindPartial:
		chunks = partial(obj, out.convert.GroupVersion())
	case kindPartialList:
		return newStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested %s, but the requested object is not a list (%s)", kindPartialList, sc.kind.Kind)
	default:
		t, err := s.newTable(req, sc, out.convert.GroupVersion())
		if err != nil {
			return err
		}
		list := &rest.List{Items: []*document.Document{obj}, ResourceVersion: obj.Get("metadata", "resourceVersion").String()}
		if chunks, err = t.encode(list); err != nil {
			return err
		}
	}
	writeAnswer(w, req, out, code, chunks)
	return nil
}

// respondList answers with a page of objects of the stored version.
func (s *server) respondList(ctx context.Context, w http.ResponseWriter, req *http.Request, sc *scope, out output, stored *rest.List) error {
	list, err := sc.listFromStored(ctx, stored)
	if err != nil {
		return err
	}
	var chunks [][]byte
	room := chunkPool.Get().(*[][]byte)
	defer releaseChunks(room)
	switch {
	case out.convert == nil:
		kind := sc.resource.ListKind
		if kind == "" {
			kind = sc.kind.Kind + "List"
		}
		begin := ""
		item := func(chunks [][]byte, obj *document.Document) [][]byte { return obj.Pieces(chunks) }
		if !sc.resource.Custom {
			begin, item = "{", newTypeMeta(sc.kind).cut
		}
		chunks, err = encodeList(room, sc.kind.GroupVersion().String(), kind, list, begin, item)
	case out.convert.Kind == kindPartialList:
		gv := out.convert.GroupVersion()
		chunks, err = encodeList(room, gv.String(), kindPartialList, list, "", func(chunks [][]byte, obj *document.Document) [][]byte {
			return append(chunks, partial(obj, gv)...)
		})
	case out.convert.Kind == kindPartial:
		return newStatusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested %s, but the requested object is a list (%sList)", kindPartial, sc.kind.Kind)
	default:
		var t *table
		if t, err = s.newTable(req, sc, out.convert.GroupVersion()); err == nil {
			chunks, err = t.encode(list)
		}
	}
	if err != nil {
		return err
	}
	writeAnswer(w, req, out, http.StatusOK, chunks)
	return nil
}

// listFromStored converts a page to the version served; without a converter it is the page itself.
func (sc *scope) listFromStored(ctx context.Context, list *rest.List) (*rest.List, error) {
	if list == nil {
		list = &rest.List{}
	}
	if sc.converter == nil {
		return list, nil
	}
	converted := *list
	converted.Items = make([]*document.Document, len(list.Items))
	for i, obj := range list.Items {
		var err error
		if converted.Items[i], err = sc.fromStored(ctx, obj); err != nil {
			return nil, err
		}
	}
	return &converted, nil
}

// chunkPool holds room for the chunks of lists, which would be as much garbage as all else of a large one.
var chunkPool = sync.Pool{New: func() any { return new([][]byte) }}

func releaseChunks(room *[][]byte) {
	clear(*room)
	*room = (*room)[:0]
	chunkPool.Put(room)
}

// encodeList frames items by what a list says of itself, in room. The bytes of items are
// not copied; begin is what item leaves out at the beginning of each. Members are in order, as in upstream's lists of custom
// resources.
func encodeList(room *[][]byte, apiVersion, kind string, list *rest.List, begin string, item func([][]byte, *document.Document) [][]byte) ([][]byte, error) {
	meta, err := encodeListMeta(list)
	if err != nil {
		return nil, err
	}
	chunks := slices.Grow((*room)[:0], 4*len(list.Items)+3) // and a newline
	head := `{"apiVersion":"` + apiVersion + `","items":[`
	if len(list.Items) > 0 {
		head += begin
	}
	chunks = append(chunks, []byte(head))
	next := []byte("," + begin)
	for i, obj := range list.Items {
		if i > 0 {
			chunks = append(chunks, next)
		}
		chunks = item(chunks, obj)
	}
	*room = append(chunks, []byte(`],"kind":"`+kind+`","metadata":`+meta+`}`))
	return *room, nil
}

func encodeListMeta(list *rest.List) (string, error) {
	raw, err := json.Marshal(metav1.ListMeta{
		ResourceVersion:    list.ResourceVersion,
		Continue:           list.Continue,
		RemainingItemCount: list.RemainingItemCount,
	})
	return string(raw), err
}

// partial encodes the PartialObjectMetadata of an object.
func partial(obj *document.Document, gv schema.GroupVersion) [][]byte {
	meta := obj.Get("metadata").Raw()
	if len(meta) == 0 {
		meta = []byte("{}")
	}
	return [][]byte{[]byte(`{"apiVersion":"` + gv.String() + `","kind":"` + kindPartial + `","metadata":`), meta, []byte("}")}
}
