package filters

import (
	"net/http"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	upstream "k8s.io/apiserver/pkg/audit"

	"weir.dev/weir/server/audit"
)

// withAuditID gives each request the id that its client sent in Audit-Id, as it is, or a new one, and answers with it. Where nothing
// is audited, annotations are not kept.
func withAuditID(handler http.Handler, a *audit.Audit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(auditinternal.HeaderAuditID)
		if id == "" {
			id = uuid.NewString()
		}
		ctx := upstream.WithAuditContext(r.Context())
		upstream.WithAuditID(ctx, types.UID(id))
		if a == nil {
			audit.Disable(ctx)
		}
		w.Header().Set(auditinternal.HeaderAuditID, id)
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
