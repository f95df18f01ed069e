package h2_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// seen is what a handler tells of itself.
type seen struct {
	lines []string
	begun atomic.Bool
	ended chan struct{} // closed when it has returned
}

func (s *seen) say(args ...any) { s.lines = append(s.lines, fmt.Sprintln(args...)) }

// The same client sees the same of the library's server and of this package's, and so does the same handler.
func TestSameAsStandard(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<12)
	tests := []struct {
		name    string
		method  string
		target  string
		header  http.Header
		body    string
		trailer http.Header
		handler func(w http.ResponseWriter, r *http.Request, s *seen)
	}{
		{name: "nothing", handler: func(http.ResponseWriter, *http.Request, *seen) {}},
		{name: "small", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) { _, _ = io.WriteString(w, "<html>small") }},
		{name: "buffer", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) { _, _ = io.WriteString(w, long[:4096]) }},
		{name: "more than the buffer", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) { _, _ = io.WriteString(w, long[:4097]) }},
		{name: "little and much", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			_, _ = io.WriteString(w, "%PDF")
			_, _ = io.WriteString(w, "-"+long)
		}},
		{name: "no type", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header()["Content-Type"] = nil
			w.Header()["Date"] = nil
			_, _ = io.WriteString(w, "x")
		}},
		{name: "encoding", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Content-Encoding", "x")
			_, _ = io.WriteString(w, "x")
		}},
		{name: "length", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Content-Length", "65536")
			_, _ = io.WriteString(w, long)
		}},
		{name: "invalid length", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Content-Length", "no")
			_, _ = io.WriteString(w, "x")
		}},
		{name: "flushed", handler: func(w http.ResponseWriter, _ *http.Request, s *seen) {
			s.say(http.NewResponseController(w).Flush())
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "y")
		}},
		{name: "head", method: http.MethodHead, handler: func(w http.ResponseWriter, _ *http.Request, s *seen) {
			n, err := io.WriteString(w, "x")
			s.say(n, err)
		}},
		{name: "head of much", method: http.MethodHead, handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			_, _ = io.WriteString(w, long) // the library calls that a short write
		}},
		{name: "head with length", method: http.MethodHead, handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Content-Length", "65536")
		}},
		{name: "no content", handler: func(w http.ResponseWriter, _ *http.Request, s *seen) {
			w.WriteHeader(http.StatusNoContent)
			_, err := io.WriteString(w, "x")
			s.say(err)
		}},
		{name: "not modified", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		}},
		{name: "header after WriteHeader", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			h := w.Header()
			h.Set("A", "1")
			h.Add("B", "1")
			h.Add("B", "2")
			w.WriteHeader(http.StatusTeapot)
			h.Set("A", "2")
			h.Set("C", "1")
			w.WriteHeader(http.StatusOK)
		}},
		{name: "names and values", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header()["lower"] = []string{"1"}
			w.Header()["Bad name"] = []string{"1"}
			w.Header()["Bad-Value"] = []string{"a\nb"}
			w.Header()["Ümlaut"] = []string{"1"}
			w.Header()["Empty"] = []string{""}
		}},
		{name: "error", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) { http.Error(w, "no", http.StatusForbidden) }},
		{name: "redirect", handler: func(w http.ResponseWriter, r *http.Request, _ *seen) { http.Redirect(w, r, "/other", http.StatusFound) }},
		{name: "declared trailers", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Trailer", "T1, T2, Content-Length")
			w.Header().Add("Trailer", "T3")
			_, _ = io.WriteString(w, "x")
			w.Header().Set("T1", "1")
			w.Header().Set("T3", "3")
			w.Header().Set("T4", "4")
		}},
		{name: "trailers only declared", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Trailer", "T1")
			_, _ = io.WriteString(w, long)
		}},
		{name: "trailers not declared", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			_, _ = io.WriteString(w, long)
			w.Header().Set(http.TrailerPrefix+"t1", "1")
		}},
		{name: "trailers alone", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set(http.TrailerPrefix+"t1", "1")
		}},
		{name: "early hints", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Link", "</x>")
			w.Header().Set("Content-Length", "1")
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, "x")
		}},
		{name: "panic", handler: func(http.ResponseWriter, *http.Request, *seen) { panic("on purpose") }},
		{name: "panic after header", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.(http.Flusher).Flush()
			panic("on purpose")
		}},
		{name: "abort", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			_, _ = w.Write([]byte(long))
			panic(http.ErrAbortHandler)
		}},
		{name: "connection close", handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "x")
		}},
		{name: "request", target: "/a%20b/../c?x=1&y=%2F", header: http.Header{"Cookie": {"a=1; b=2"}, "X": {"1", "2"}, "Te": {"trailers"}, "Accept": {"*/*"}},
			handler: func(_ http.ResponseWriter, r *http.Request, s *seen) {
				s.say(r.Method, r.URL, r.RequestURI, r.Host == r.Context().Value(http.LocalAddrContextKey).(net.Addr).String(), r.Proto, r.ContentLength, r.Close, len(r.TransferEncoding))
				host, _, err := net.SplitHostPort(r.RemoteAddr)
				s.say(host, err, r.TLS.NegotiatedProtocol, r.TLS.HandshakeComplete)
				_, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
				s.say(ok, r.Context().Value(baseKey{}), r.Context().Value(connKey{}))
				for _, name := range slices.Sorted(keys(r.Header)) {
					s.say(name, r.Header[name])
				}
				n, err := r.Body.Read(make([]byte, 1))
				s.say(n, err, r.Trailer == nil)
			}},
		{name: "options", method: http.MethodOptions, target: "*", handler: func(_ http.ResponseWriter, r *http.Request, s *seen) { s.say(r.URL.Path) }},
		{name: "body", method: http.MethodPost, body: long, handler: func(w http.ResponseWriter, r *http.Request, s *seen) {
			b, err := io.ReadAll(r.Body)
			s.say(len(b), err, r.ContentLength, r.Trailer == nil)
			n, err := r.Body.Read(make([]byte, 1))
			s.say(n, err, r.Body.Close())
		}},
		{name: "body that is not read", method: http.MethodPut, body: long + long + long, handler: func(w http.ResponseWriter, r *http.Request, _ *seen) {
			w.WriteHeader(http.StatusUnauthorized)
		}},
		{name: "body with trailers", method: http.MethodPost, body: "x", trailer: http.Header{"T1": {"1"}, "T2": {"2", "3"}}, handler: func(_ http.ResponseWriter, r *http.Request, s *seen) {
			s.say(len(r.Trailer), r.Trailer.Get("T1"))
			b, err := io.ReadAll(r.Body)
			s.say(string(b), err, r.Trailer.Get("T1"), r.Trailer["T2"])
		}},
		{name: "continue", method: http.MethodPost, body: "x", header: http.Header{"Expect": {"100-continue"}}, handler: func(_ http.ResponseWriter, r *http.Request, s *seen) {
			b, err := io.ReadAll(r.Body)
			s.say(string(b), err, r.Header.Get("Expect"))
		}},
		{name: "no continue", method: http.MethodPost, body: "x", header: http.Header{"Expect": {"100-continue"}}, handler: func(w http.ResponseWriter, _ *http.Request, _ *seen) {
			w.WriteHeader(http.StatusUnauthorized)
		}},
		{name: "long header", header: http.Header{"Long": {long}}, handler: func(w http.ResponseWriter, r *http.Request, s *seen) {
			s.say(len(r.Header.Get("Long")))
			w.Header().Set("Long", long)
			w.Header().Set("Longer", long+long)
		}},
		{name: "controller", handler: func(w http.ResponseWriter, _ *http.Request, s *seen) {
			c := http.NewResponseController(w)
			s.say(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetWriteDeadline(time.Now().Add(time.Hour)), c.EnableFullDuplex())
			_, _, err := c.Hijack()
			s.say(errors.Is(err, http.ErrNotSupported))
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			transcript := func(server string) string {
				s := &seen{ended: make(chan struct{})}
				configure := func(h *http.Server) {
					h.BaseContext = func(net.Listener) context.Context { return context.WithValue(context.Background(), baseKey{}, "base") }
					h.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
						return context.WithValue(ctx, connKey{}, "conn")
					}
				}
				serving := serve(t, server, options{configure: configure}, func(w http.ResponseWriter, r *http.Request) {
					s.begun.Store(true)
					defer close(s.ended)
					tc.handler(w, r, s)
				})
				return answer(t, serving, tc.method, tc.target, tc.body, tc.header, tc.trailer) + handlers(t, s)
			}
			if want, got := transcript(standard), transcript(ours); got != want {
				t.Errorf("got:\n%.2000s\nwant:\n%.2000s", got, want)
			}
		})
	}
}

type (
	baseKey struct{}
	connKey struct{}
)

func keys(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// handlers is what a handler said, if it ran: what a client gets of it comes after its beginning.
func handlers(t *testing.T, s *seen) string {
	if !s.begun.Load() {
		return "no handler"
	}
	within(t, s.ended, "end of the handler")
	return "handler: " + strings.Join(s.lines, "")
}

// answer sends a request and says all that came back.
func answer(t *testing.T, s *serving, method, target, body string, header, trailer http.Header) string {
	var out strings.Builder
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			fmt.Fprintln(&out, "information:", code, h)
			return nil
		},
	})
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := request(t, ctx, method, "https://"+s.address+"/", reader)
	switch {
	case target == "*":
		r.URL.Opaque = "*"
	case target != "":
		r.URL.Opaque = target
	}
	if header != nil {
		r.Header = header.Clone()
	}
	if trailer != nil {
		r.Trailer, r.ContentLength = trailer.Clone(), -1
	}
	response, err := s.client(t).Transport.RoundTrip(r)
	if err != nil {
		return out.String() + err.Error() + "\n"
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	fmt.Fprintln(&out, response.Status, response.ContentLength, response.Uncompressed)
	if response.Header.Get("Date") != "" {
		response.Header.Set("Date", "set")
	}
	for _, h := range []http.Header{response.Header, response.Trailer} {
		for _, name := range slices.Sorted(keys(h)) {
			fmt.Fprintf(&out, "%s: %q\n", name, h[name])
		}
		fmt.Fprintln(&out)
	}
	fmt.Fprintln(&out, len(data), string(data), err)
	return out.String()
}
