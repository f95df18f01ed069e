package endpoints

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// deleteCollection serves DELETE of a collection. It has no time limit of its
// own, as a list has none.
func (s *server) deleteCollection(w http.ResponseWriter, req *http.Request, sc *scope) error {
	deleter, ok := sc.storage.(rest.CollectionDeleter)
	if !ok {
		return sc.errNotSupported("deletecollection")
	}
	ctx := sc.context(req.Context())
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	list, err := sc.listOptions(req)
	if err != nil {
		return err
	}
	opts, err := s.deleteOptions(w, req, sc)
	if err != nil {
		return err
	}
	if ignore := opts.IgnoreStoreReadErrorWithClusterBreakingPotential; ignore != nil && *ignore {
		return newInvalidOptions("DeleteOptions", field.ErrorList{field.Invalid(
			field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"), true,
			"is not allowed with DELETECOLLECTION, try again after removing the option")})
	}
	attrs, err := sc.attributes(ctx, admission.Delete, opts, opts.DryRun)
	if err != nil {
		return err
	}
	result, err := deleter.DeleteCollection(ctx, s.validateDelete(sc, attrs), opts, list)
	if err != nil {
		return err
	}
	return s.respondList(ctx, w, req, sc, out, result)
}
