package endpoints

import (
	"net/http"

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
