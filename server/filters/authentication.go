package filters

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/request"
)

// withAuthentication finds out who asks; 401 when nobody vouches for it. The Authorization
// header goes no further.
func withAuthentication(handler http.Handler, authn authenticator.Request, a *audit.Audit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, ok, err := authn.AuthenticateRequest(r)
		if err != nil || !ok {
			refuse(w, r, a, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		r.Header.Del("Authorization")
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Remote-") {
				r.Header.Del(name)
			}
		}
		handler.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), response.User)))
	})
}
