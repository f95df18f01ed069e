package filters

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/audit"
)

// BenchmarkChain is what the filters cost a request that is not audited, that a policy leaves out, and whose two events are
// written to a file.
func BenchmarkChain(b *testing.B) {
	for _, bc := range []struct{ name, rule string }{{"off", ""}, {"none", "{level: None}"}, {"metadata", "{level: Metadata}"}} {
		b.Run(bc.name, func(b *testing.B) {
			config := Config{
				Logger: slog.New(slog.DiscardHandler), Authenticator: authenticator.RequestFunc(people), Authorizer: authorizer.AuthorizerFunc(rules),
				RequestInfo: &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
				Pin:         func(ctx context.Context) (context.Context, func()) { return ctx, func() {} }, Drain: &Drain{},
			}
			if bc.rule != "" {
				policy := filepath.Join(b.TempDir(), "policy.yaml")
				if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: ["+bc.rule+"]\n"), 0o600); err != nil {
					b.Fatal(err)
				}
				var err error
				if config.Audit, err = audit.Open(audit.Config{PolicyFile: policy, Log: audit.LogConfig{Path: filepath.Join(b.TempDir(), "audit.log")}}, config.Logger); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = config.Audit.Close(context.Background()) }()
			}
			chain, err := Chain(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }), config)
			if err != nil {
				b.Fatal(err)
			}
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v1/namespaces/a/configmaps/x", http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				r.Header.Set("Authorization", "alice")
				chain.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
