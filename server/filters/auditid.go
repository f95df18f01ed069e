package filters

import (
	"net/http"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// maxAuditIDLength bounds an id that a client sends, as upstream does.
const maxAuditIDLength = 64

// withAuditID gives each request the id that its client sent in Audit-Id, or a new one, and answers with it.
func withAuditID(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(auditinternal.HeaderAuditID)
		if id == "" || len(id) > maxAuditIDLength {
			id = uuid.NewString()
		}
		ctx := audit.WithAuditContext(r.Context())
		audit.WithAuditID(ctx, types.UID(id))
		w.Header().Set(auditinternal.HeaderAuditID, id)
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
}
