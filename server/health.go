package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// check is one thing that must be well for a server to be healthy, live or ready.
type check struct {
	name string
	// ok returns nil, or what is wrong, or a *warning. It must be quick.
	ok func(ctx context.Context) error
}

// warning is what an operator should know and fails no check.
type warning struct{ error }

func (w *warning) Unwrap() error { return w.error }

// health serves /healthz, /livez or /readyz: 200 when all checks pass, 500 with the failed ones
// otherwise; each check at its own path below; ?verbose lists them, ?exclude=NAME leaves one out.
// Everybody may ask for them, so reasons, which name files, addresses and plugins, are at the path of a check only.
type health struct {
	path   string
	checks []check
}

// handlers returns what serves each path.
func (h *health) handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{h.path: http.HandlerFunc(h.serve)}
	for _, c := range h.checks {
		handlers[h.path+"/"+c.name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			err := c.ok(r.Context())
			if told := (*warning)(nil); errors.As(err, &told) {
				_, _ = fmt.Fprintf(w, "ok\nwarning: %v\n", err)
				return
			}
			if err != nil {
				http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
				return
			}
			_, _ = fmt.Fprint(w, "ok") // a client that is gone needs no answer
		})
	}
	return handlers
}

func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	excluded := map[string]bool{}
	for _, name := range r.URL.Query()["exclude"] {
		excluded[name] = true
	}
	var report strings.Builder
	var failed []string
	for _, c := range h.checks {
		if excluded[c.name] {
			delete(excluded, c.name)
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.name)
			continue
		}
		err := c.ok(r.Context())
		if told := (*warning)(nil); errors.As(err, &told) {
			fmt.Fprintf(&report, "[+]%s ok, with a warning: reason withheld\n", c.name)
			continue
		}
		if err != nil {
			failed = append(failed, c.name)
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.name)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", c.name)
	}
	for name := range excluded {
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %q\n", name)
	}
	name := strings.TrimPrefix(h.path, "/")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if len(failed) > 0 {
		http.Error(w, fmt.Sprintf("%s%s check failed", report.String(), name), http.StatusInternalServerError)
		return
	}
	if _, verbose := r.URL.Query()["verbose"]; !verbose {
		_, _ = fmt.Fprint(w, "ok")
		return
	}
	_, _ = fmt.Fprintf(w, "%s%s check passed\n", report.String(), name)
}

// gate is a check that fails, with a reason, until it is opened.
type gate struct {
	mu     sync.Mutex
	reason error // guarded by mu
}

func newGate(reason string) *gate { return &gate{reason: fmt.Errorf("%s", reason)} }

func (g *gate) set(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reason = reason
}

func (g *gate) check(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}
