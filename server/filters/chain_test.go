package filters

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// people authenticates by the Authorization header, which is the user's name; none is anonymous.
func people(r *http.Request) (*authenticator.Response, bool, error) {
	name := r.Header.Get("Authorization")
	switch name {
	case "":
		return nil, false, nil
	case "broken":
		return nil, false, errors.New("bad credentials")
	case "root":
		return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup}}}, true, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}}, true, nil
}

// rules lets root do everything, alice all but delete, and bob nothing.
func rules(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch {
	case a.GetUser().GetName() == "root", a.GetUser().GetName() == "alice" && a.GetVerb() != "delete" && a.GetVerb() != "impersonate":
		return authorizer.DecisionAllow, "", nil
	case a.GetUser().GetName() == "alice" && a.GetVerb() == "impersonate" && a.GetResource() == "users" && a.GetName() == "carol":
		return authorizer.DecisionAllow, "", nil
	case a.GetUser().GetName() == "carol":
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

type pins struct {
	mu       sync.Mutex
	held     int // guarded by mu
	released int // guarded by mu
}

func (p *pins) pin(ctx context.Context) (context.Context, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held++
	return ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held--
		p.released++
	}
}

func (p *pins) counts() (held, released int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.released
}

func testChain(t *testing.T, handler http.HandlerFunc, change func(*Config)) http.Handler {
	t.Helper()
	config := Config{
		Logger:        slog.New(slog.DiscardHandler),
		Authenticator: authenticator.RequestFunc(people),
		Authorizer:    authorizer.AuthorizerFunc(rules),
		RequestInfo:   &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		Pin:           (&pins{}).pin,
		Drain:         &Drain{},
	}
	if change != nil {
		change(&config)
	}
	chain, err := Chain(handler, config)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// do sends a request as a user and returns the answer.
func do(t *testing.T, handler http.Handler, who, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if who != "" {
		r.Header.Set("Authorization", who)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

func status(t *testing.T, response *http.Response) metav1.Status {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var s metav1.Status
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return s
}

func TestChainDecides(t *testing.T) {
	chain := testChain(t, func(w http.ResponseWriter, r *http.Request) {
		who, _ := request.UserFrom(r.Context())
		if r.Header.Get("Authorization") != "" || r.Header.Get("Impersonate-User") != "" {
			t.Error("credentials went on")
		}
		_, _ = io.WriteString(w, who.GetName()+" "+strings.Join(who.GetGroups(), ","))
	}, nil)
	tests := []struct {
		name         string
		who          string
		method, path string
		headers      []string
		code         int
		text         string
	}{
		{"allowed", "alice", "GET", "/api/v1/namespaces/a/configmaps/c", nil, 200, "alice system:authenticated"},
		{"nobody", "", "GET", "/api", nil, 401, "Unauthorized"},
		{"bad credentials", "broken", "GET", "/api", nil, 401, "Unauthorized"},
		{"forbidden object", "alice", "DELETE", "/api/v1/namespaces/a/configmaps/c", nil, 403,
			`configmaps "c" is forbidden: User "alice" cannot delete resource "configmaps" in API group "" in the namespace "a"`},
		{"forbidden subresource", "bob", "PUT", "/apis/apps/v1/namespaces/a/deployments/d/status", nil, 403,
			`deployments.apps "d" is forbidden: User "bob" cannot update resource "deployments/status" in API group "apps" in the namespace "a"`},
		{"forbidden at cluster scope", "bob", "GET", "/api/v1/nodes", nil, 403,
			`nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope`},
		{"forbidden path", "bob", "GET", "/metrics", nil, 403, `forbidden: User "bob" cannot get path "/metrics"`},
		{"impersonation", "root", "GET", "/api", []string{"Impersonate-User", "carol", "Impersonate-Group", "g"}, 200, "carol g,system:authenticated"},
		{"impersonation of one allowed", "alice", "GET", "/api", []string{"Impersonate-User", "carol"}, 200, "carol system:authenticated"},
		{"impersonation of another", "alice", "GET", "/api", []string{"Impersonate-User", "dave"}, 403,
			`users "dave" is forbidden: User "alice" cannot impersonate resource "users" in API group "" at the cluster scope`},
		{"impersonation of a group besides", "alice", "GET", "/api", []string{"Impersonate-User", "carol", "Impersonate-Group", "g"}, 403, "groups"},
		{"impersonated group without a user", "root", "GET", "/api", []string{"Impersonate-Group", "g"}, 400, "Impersonate-User"},
		{"impersonated service account", "root", "GET", "/api", []string{"Impersonate-User", "system:serviceaccount:a:b"}, 403,
			`User "system:serviceaccount:a:b" cannot get path "/api"`},
		{"bad timeout", "alice", "GET", "/api/v1/nodes?timeout=soon", nil, 400, "invalid timeout"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			response := do(t, chain, tc.who, tc.method, tc.path, tc.headers...)
			if response.StatusCode != tc.code {
				t.Errorf("code %d, want %d", response.StatusCode, tc.code)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			text := string(body)
			if tc.code != 200 {
				var s metav1.Status
				if err := json.Unmarshal(body, &s); err != nil {
					t.Fatalf("%q: %v", body, err)
				}
				if s.Kind != "Status" || s.Status != "Failure" || int(s.Code) != tc.code {
					t.Errorf("status %+v", s)
				}
				text = s.Message
			}
			if !strings.Contains(text, tc.text) {
				t.Errorf("text %q, want %q", text, tc.text)
			}
			if response.Header.Get("Audit-Id") == "" || response.Header.Get("Cache-Control") != "no-cache, private" {
				t.Errorf("headers %v", response.Header)
			}
		})
	}
}

func TestAuditIDOfTheClient(t *testing.T) {
	var seen string
	chain := testChain(t, func(_ http.ResponseWriter, r *http.Request) {
		seen = audit.GetAuditIDTruncated(r.Context())
	}, nil)
	response := do(t, chain, "alice", "GET", "/api", "Audit-Id", "mine")
	if seen != "mine" || response.Header.Get("Audit-Id") != "mine" {
		t.Errorf("id %q, answered %q", seen, response.Header.Get("Audit-Id"))
	}
	long := strings.Repeat("x", 100)
	if response := do(t, chain, "alice", "GET", "/api", "Audit-Id", long); seen != long[:64] || response.Header.Get("Audit-Id") != long {
		t.Errorf("id %q, answered %q", seen, response.Header.Get("Audit-Id"))
	}
}

func TestPanic(t *testing.T) {
	var log strings.Builder
	chain := testChain(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/late" {
			_, _ = io.WriteString(w, "begun")
		}
		panic("broken inside")
	}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	s := status(t, do(t, chain, "alice", "GET", "/api"))
	if s.Code != 500 || !strings.Contains(s.Message, "its log says why") || strings.Contains(s.Message, "broken inside") {
		t.Errorf("status %+v", s)
	}
	if !strings.Contains(log.String(), "broken inside") {
		t.Errorf("log %q", log.String())
	}
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler {
			t.Errorf("recovered %v, want ErrAbortHandler", cause)
		}
	}()
	do(t, chain, "alice", "GET", "/api/late")
}

func TestDeadline(t *testing.T) {
	var deadline time.Time
	var bounded bool
	chain := testChain(t, func(_ http.ResponseWriter, r *http.Request) {
		deadline, bounded = r.Context().Deadline()
	}, func(c *Config) { c.RequestTimeout = time.Minute })
	tests := []struct {
		name, path string
		after      time.Duration // 0: none
	}{
		{"default", "/api/v1/nodes", time.Minute},
		{"shorter", "/api/v1/nodes?timeout=5s", 5 * time.Second},
		{"longer is cut", "/api/v1/nodes?timeout=1h", time.Minute},
		{"watch", "/api/v1/nodes?watch=1&timeout=5s", 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := time.Now()
			do(t, chain, "alice", "GET", tc.path)
			if bounded != (tc.after > 0) || bounded && (deadline.Before(before.Add(tc.after)) || deadline.After(time.Now().Add(tc.after))) {
				t.Errorf("bounded %v, after %v, want %v", bounded, deadline.Sub(before), tc.after)
			}
		})
	}
}

func TestMaxInFlight(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	free := sync.OnceFunc(func() { close(leave) })
	defer free()
	chain := testChain(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") == "" {
			return
		}
		entered <- struct{}{}
		<-leave
	}, func(c *Config) { c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight = 1, 1 })
	var held sync.WaitGroup
	for _, method := range []string{"GET", "POST"} {
		held.Go(func() { do(t, chain, "alice", method, "/api/v1/namespaces/a/configmaps", "X-Wait", "1") })
		<-entered
	}
	tests := []struct {
		name, who, method, path string
		code                    int
	}{
		{"another read", "alice", "GET", "/api/v1/nodes", 429},
		{"another write", "alice", "POST", "/api/v1/nodes", 429},
		{"a watch is not counted", "alice", "GET", "/api/v1/nodes?watch=1", 200},
		{"an administrator gets in", "root", "GET", "/api/v1/nodes", 200},
		{"a probe is not counted", "alice", "GET", "/livez", 200},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			response := do(t, chain, tc.who, tc.method, tc.path)
			if response.StatusCode != tc.code {
				t.Errorf("code %d, want %d", response.StatusCode, tc.code)
			}
			if tc.code == 429 && response.Header.Get("Retry-After") != "1" {
				t.Error("no Retry-After")
			}
		})
	}
	free()
	held.Wait()
	if response := do(t, chain, "alice", "GET", "/api/v1/nodes"); response.StatusCode != 200 {
		t.Errorf("afterwards code %d", response.StatusCode)
	}
}

func TestDrain(t *testing.T) {
	drain := &Drain{}
	started := make(chan string, 2)
	finish := make(chan struct{})
	chain := testChain(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			started <- "watch"
			<-r.Context().Done()
			return
		}
		started <- "get"
		<-finish
		_, _ = io.WriteString(w, "done")
	}, func(c *Config) { c.Drain = drain })
	codes := make(chan int, 2)
	var requests sync.WaitGroup
	for _, path := range []string{"/api/v1/nodes?watch=1", "/api/v1/nodes"} {
		requests.Go(func() { codes <- do(t, chain, "alice", "GET", path).StatusCode })
	}
	both := []string{<-started, <-started}
	slices.Sort(both)
	if !slices.Equal(both, []string{"get", "watch"}) {
		t.Fatalf("started %v", both)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := drain.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close while a request runs: %v", err)
	}
	if s := status(t, do(t, chain, "alice", "GET", "/api")); s.Code != 503 || !strings.Contains(s.Message, "shutting down") {
		t.Errorf("while it drains: %+v", s)
	}
	close(finish)
	if err := drain.Close(t.Context()); err != nil {
		t.Error(err)
	}
	requests.Wait()
	for range 2 {
		if code := <-codes; code != 200 {
			t.Errorf("code %d, want 200", code)
		}
	}
}

func TestSnapshotIsReleased(t *testing.T) {
	p := &pins{}
	chain := testChain(t, func(_ http.ResponseWriter, r *http.Request) {
		if held, _ := p.counts(); held != 1 {
			t.Errorf("%d pinned", held)
		}
		if !r.URL.Query().Has("watch") {
			rest.Release(r.Context()) // only a watch lets go early
			if held, _ := p.counts(); held != 1 {
				t.Error("a request let go of its snapshot")
			}
			return
		}
		for range 2 {
			rest.Release(r.Context())
		}
		if held, released := p.counts(); held != 0 || released != 2 {
			t.Errorf("in the watch %d held, %d released", held, released)
		}
	}, func(c *Config) { c.Pin = p.pin })
	do(t, chain, "alice", "GET", "/api/v1/nodes")
	do(t, chain, "alice", "GET", "/api/v1/nodes?watch=1")
	if held, released := p.counts(); held != 0 || released != 2 {
		t.Errorf("%d held, %d released", held, released)
	}
}

func TestConfigValidate(t *testing.T) {
	if _, err := Chain(http.NotFoundHandler(), Config{}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}
