package endpoints

import (
	"net/http"

	"weir.dev/weir/server/rest"
)

// get serves GET of one object.
func (s *server) get(w http.ResponseWriter, req *http.Request, sc *scope) error {
	getter, ok := sc.storage.(rest.Getter)
	if !ok {
		return sc.errNotSupported("get")
	}
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	opts, err := getOptions(req)
	if err != nil {
		return err
	}
	ctx := sc.context(req.Context())
	obj, err := getter.Get(ctx, sc.name, opts)
	if err != nil {
		return err
	}
	return s.respond(ctx, w, req, sc, out, http.StatusOK, obj)
}
