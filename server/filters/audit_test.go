package filters

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/audit"
)

// audited is an event, as far as these tests look at it.
type audited struct {
	Stage            string
	User             struct{ Username string }
	ImpersonatedUser *struct{ Username string }
	ResponseStatus   *metav1.Status
	Annotations      map[string]string
}

// auditTo opens an audit that has everything at Metadata in a file.
func auditTo(t *testing.T, log string, delivery audit.Delivery) *audit.Audit {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := audit.Open(audit.Config{PolicyFile: policy, Log: audit.LogConfig{Path: log, Delivery: delivery}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(context.WithoutCancel(t.Context())) })
	return a
}

func readAudit(t *testing.T, log string) []audited {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var events []audited
	for line := range bytes.Lines(text) {
		var e audited
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// TestAudit: stages, code and message of requests that end in the filters, and of those that end otherwise.
func TestAudit(t *testing.T) {
	const path = "/api/v1/namespaces/a/configmaps/x"
	tests := []struct {
		name, who, method, path string
		headers                 []string
		change                  func(*Config)
		// stages of the events; code and message of the last.
		stages  string
		code    int32
		message string
		// as is who was impersonated; decision what the authorizer said.
		as, decision string
	}{
		{name: "served", who: "alice", path: path, stages: "RequestReceived ResponseComplete", code: 200, decision: "allow"},
		{name: "a watch", who: "alice", path: "/api/v1/configmaps?watch=1", stages: "RequestReceived ResponseStarted ResponseComplete", code: 200, decision: "allow"},
		{name: "forbidden", who: "bob", path: path, stages: "RequestReceived ResponseComplete", code: 403, message: `User "bob" cannot get resource`, decision: "forbid"},
		{name: "not authenticated", path: path, stages: "ResponseStarted", code: 401, message: "Unauthorized"},
		{name: "a wrong time", path: path + "?timeout=x", stages: "ResponseStarted", code: 400, message: "invalid timeout"},
		{name: "impersonated", who: "alice", path: path, headers: []string{"Impersonate-User", "carol"}, stages: "RequestReceived ResponseComplete", code: 200, as: "carol", decision: "allow"},
		{name: "may not impersonate", who: "alice", path: path, headers: []string{"Impersonate-User", "dave"}, stages: "RequestReceived ResponseComplete", code: 403, message: `cannot impersonate resource "users"`},
		{name: "too many", who: "alice", path: path, change: func(c *Config) { c.MaxRequestsInFlight = 1 },
			headers: []string{"Full", "yes"}, stages: "RequestReceived ResponseComplete", code: 429, message: "too many requests"},
		{name: "a panic", who: "alice", path: path, headers: []string{"Do", "panic"}, stages: "RequestReceived Panic", code: 500, message: "APIServer panic'd: on purpose", decision: "allow"},
		{name: "nothing is answered", who: "alice", path: path, headers: []string{"Do", "nothing"}, stages: "RequestReceived ResponseComplete", code: 200, message: "Connection closed early", decision: "allow"},
		{name: "flushed", who: "alice", path: path, headers: []string{"Do", "flush"}, stages: "RequestReceived ResponseComplete", code: 200, decision: "allow"},
		{name: "another protocol", who: "alice", path: path, headers: []string{"Do", "hijack"}, stages: "RequestReceived ResponseComplete", code: 101, decision: "allow"},
		{name: "no path", who: "alice", method: http.MethodPost, path: "/nowhere", stages: "RequestReceived ResponseComplete", code: 200, decision: "allow"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "audit.log")
			entered, leave := make(chan struct{}), make(chan struct{})
			handler := func(w http.ResponseWriter, r *http.Request) {
				switch r.Header.Get("Do") {
				case "panic":
					panic("on purpose")
				case "nothing":
				case "flush":
					w.(http.Flusher).Flush()
				case "hijack":
					if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
						t.Error(err)
					}
				case "wait":
					close(entered)
					<-leave
				default:
					w.WriteHeader(http.StatusOK)
				}
			}
			chain := testChain(t, handler, func(c *Config) {
				if tc.change != nil {
					tc.change(c)
				}
				c.Audit = auditTo(t, log, audit.Delivery{})
			})
			if len(tc.headers) > 0 && tc.headers[0] == "Full" {
				done := make(chan struct{})
				go func() {
					defer close(done)
					do(t, chain, "alice", http.MethodGet, "/apis", "Do", "wait")
				}()
				<-entered
				defer func() { close(leave); <-done }()
			}
			r := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, http.NoBody)
			if tc.who != "" {
				r.Header.Set("Authorization", tc.who)
			}
			for i := 0; i+1 < len(tc.headers); i += 2 {
				r.Header.Add(tc.headers[i], tc.headers[i+1])
			}
			before := 0
			if text, err := os.ReadFile(log); err == nil {
				before = bytes.Count(text, []byte("\n"))
			}
			chain.ServeHTTP(&hijackable{httptest.NewRecorder()}, r)
			events := readAudit(t, log)[before:]
			var stages []string
			for _, e := range events {
				stages = append(stages, e.Stage)
			}
			if got := strings.Join(stages, " "); got != tc.stages {
				t.Fatalf("stages %s, want %s", got, tc.stages)
			}
			last := events[len(events)-1]
			if s := last.ResponseStatus; s == nil || s.Code != tc.code || !strings.Contains(s.Message, tc.message) {
				t.Errorf("status %+v", s)
			}
			if last.User.Username != tc.who || (last.ImpersonatedUser != nil) != (tc.as != "") || tc.as != "" && last.ImpersonatedUser.Username != tc.as {
				t.Errorf("user %+v as %+v", last.User, last.ImpersonatedUser)
			}
			if got := last.Annotations[decisionAnnotation]; tc.decision != "" && got != tc.decision {
				t.Errorf("annotations %v", last.Annotations)
			}
		})
	}
}

// hijackable is a writer whose connection can be had.
type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// TestStrictAudit: a request whose event cannot be written is refused before it is served.
func TestStrictAudit(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	served := false
	chain := testChain(t, func(http.ResponseWriter, *http.Request) { served = true }, func(c *Config) {
		c.Audit = auditTo(t, "/dev/full", audit.Delivery{Mode: audit.ModeBlockingStrict})
	})
	response := do(t, chain, "alice", http.MethodGet, "/api/v1/configmaps")
	if got := status(t, response); got.Code != http.StatusInternalServerError || !strings.Contains(got.Message, "failed to store audit event") || served {
		t.Errorf("%+v, served %v", got, served)
	}
}
