package filters

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// TestDrainOfBodies: a server that ends waits for the body of a request as long as it comes, and for a request that has
// all of its body as long as that takes.
func TestDrainOfBodies(t *testing.T) {
	const short, long = 200 * time.Millisecond, 1200 * time.Millisecond
	read := func(r *http.Request) outcome {
		body, err := io.ReadAll(r.Body)
		return outcome{string(body), err}
	}
	tests := []struct {
		name string
		// patience is long where something has to come in time, which it may not on a busy machine.
		patience time.Duration
		// handle serves the request; began is called when the server may end.
		handle func(r *http.Request, began func()) outcome
		path   string
		more   []string // what follows hello, each after a quarter of patience
		want   outcome
	}{
		{name: "nothing comes", patience: short, want: outcome{"hello", os.ErrDeadlineExceeded},
			handle: func(r *http.Request, began func()) outcome {
				hello := make([]byte, len("hello"))
				if _, err := io.ReadFull(r.Body, hello); err != nil {
					return outcome{err: err}
				}
				began()
				rest := read(r)
				return outcome{string(hello) + rest.body, rest.err}
			}},
		{name: "it comes slowly", patience: long, more: []string{" ", "w", "o", "r", "l", "d"}, want: outcome{body: "hello world"},
			handle: func(r *http.Request, began func()) outcome { began(); return read(r) }},
		{name: "it has come", patience: short, more: []string{" world"}, want: outcome{body: "hello world"},
			handle: func(r *http.Request, began func()) outcome {
				got := read(r)
				began()
				return wait(r.Context(), 3*short, got.body)
			}},
		{name: "it comes, and then there is something to do", patience: long, more: []string{" ", "world"}, want: outcome{body: "hello world"},
			handle: func(r *http.Request, began func()) outcome {
				began()
				return wait(r.Context(), 3*long/2, read(r).body)
			}},
		{name: "nobody reads it", patience: short, handle: func(r *http.Request, began func()) outcome {
			began()
			return wait(r.Context(), 3*short, "")
		}},
		{name: "a watch", patience: short, path: "?watch=1", handle: func(r *http.Request, began func()) outcome {
			began()
			<-r.Context().Done()
			return outcome{}
		}},
	}
	for _, protocol := range []int{1, 2} {
		for _, tc := range tests {
			t.Run([]string{"", "http1 ", "http2 "}[protocol]+tc.name, func(t *testing.T) {
				t.Parallel()
				drain := &Drain{Patience: tc.patience}
				began, outcomes := make(chan struct{}), make(chan outcome, 1)
				chain := testChain(t, func(_ http.ResponseWriter, r *http.Request) {
					got := tc.handle(r, func() { close(began) })
					outcomes <- got
				}, func(c *Config) { c.Drain = drain })
				server := httptest.NewUnstartedServer(chain)
				server.EnableHTTP2 = protocol == 2
				server.StartTLS()
				defer server.Close()
				body, client := io.Pipe()
				defer client.Close()
				length := len("hello")
				for _, part := range tc.more {
					length += len(part)
				}
				if tc.more == nil {
					length = 1000
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/nodes"+tc.path, body)
				if err != nil {
					t.Fatal(err)
				}
				req.ContentLength = int64(length)
				req.Header.Set("Authorization", "alice")
				go func() {
					resp, err := server.Client().Do(req)
					if err == nil {
						_ = resp.Body.Close()
					}
				}()
				go func() {
					_, _ = io.WriteString(client, "hello")
					for _, part := range tc.more {
						<-time.After(tc.patience / 4)
						_, _ = io.WriteString(client, part)
					}
					if tc.more != nil {
						_ = client.Close()
					}
				}()
				select {
				case <-began:
				case <-time.After(20 * time.Second):
					t.Fatal("the request has not come")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if err := drain.Close(ctx); err != nil {
					t.Fatal(err)
				}
				if got := <-outcomes; got.body != tc.want.body || !errors.Is(got.err, tc.want.err) {
					t.Errorf("got %q, %v, want %q, %v", got.body, got.err, tc.want.body, tc.want.err)
				}
			})
		}
	}
}

// outcome is what a handler has read, and how that or its request ended.
type outcome struct {
	body string
	err  error
}

// wait is what a request does that takes long.
func wait(ctx context.Context, long time.Duration, body string) outcome {
	select {
	case <-ctx.Done():
		return outcome{body, ctx.Err()}
	case <-time.After(long):
		return outcome{body: body}
	}
}
