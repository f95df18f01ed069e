package endpoints

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/audit"
)

// A patch is recorded as it is, so that what is no JSON must not be: a line of the log would be none.
func TestAuditPatch(t *testing.T) {
	tests := []struct {
		name, patch string
		recorded    bool
	}{
		{"json", `{"data":{"a":"b"}}`, true},
		{"no json", `{"data":`, false},
		{"no utf-8", "{\"data\":{\"a\":\"\xff\"}}", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
			if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			a, err := audit.Open(audit.Config{PolicyFile: policy, Log: audit.LogConfig{Path: log}}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(upstream.WithAuditContext(t.Context()), http.MethodPatch, "/api/v1/namespaces/shop/configmaps/a", http.NoBody)
			ctx, event := a.Begin(r, authorizer.AttributesRecord{Verb: "patch", ResourceRequest: true, APIVersion: "v1", Resource: "configmaps"})
			if err := (&server{}).auditPatch(ctx, types.MergePatchType, []byte(tc.patch)); err != nil {
				t.Fatal(err)
			}
			event.Complete(ctx, false)
			if err := a.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(text), `"requestObject":`); got != tc.recorded || len(text) == 0 {
				t.Errorf("the log: %q", text)
			}
		})
	}
}
