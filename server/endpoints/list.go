package endpoints

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"weir.dev/weir/server/rest"
)

// list serves GET of a collection: a page of it, or its events with ?watch.
func (s *server) list(w http.ResponseWriter, req *http.Request, sc *scope) error {
	opts, err := sc.listOptions(req)
	if err != nil {
		return err
	}
	if opts.Watch {
		return s.watch(w, req, sc, opts)
	}
	lister, ok := sc.storage.(rest.Lister)
	if !ok {
		return sc.errNotSupported("list")
	}
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	ctx := sc.context(req.Context())
	list, err := lister.List(ctx, opts)
	if err != nil {
		return err
	}
	return s.respondList(ctx, w, req, sc, out, list)
}

// watchPath serves the old form of a watch, by its path. That of one object is a watch with its name as the
// selector.
func (s *server) watchPath(w http.ResponseWriter, req *http.Request, sc *scope) error {
	opts, err := sc.listOptions(req)
	if err != nil {
		return err
	}
	if sc.name != "" {
		if opts.FieldSelector == nil || opts.FieldSelector.Empty() {
			opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", sc.name)
		}
		if name, ok := opts.FieldSelector.RequiresExactMatch("metadata.name"); !ok || name != sc.name {
			return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
		}
	}
	return s.watch(w, req, sc, opts)
}
