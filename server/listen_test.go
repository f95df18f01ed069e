package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// serveForTest serves handler and returns its address and what trusts it.
func serveForTest(t *testing.T, http2Server string, timeout time.Duration, handler http.HandlerFunc) (string, *tls.Config) {
	t.Helper()
	files, err := EnsureCertificates(filepath.Join(t.TempDir(), "pki"), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := newHTTPServer(serving{
		handler: handler, certFile: files.ServingCertFile, keyFile: files.ServingKeyFile, clientCAs: func() *x509.CertPool { return nil },
		requestTimeout: timeout, http2Server: http2Server, logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := listen(&Config{BindAddress: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	ca, err := os.ReadFile(files.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return listener.Addr().String(), &tls.Config{RootCAs: pool}
}

// A client that begins a body and sends no more lets go of its request when the request's time is up.
func TestSlowBody(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for _, tc := range []struct{ protocol, server string }{{"http/1.1", HTTP2Weir}, {"h2", HTTP2Weir}, {"h2", HTTP2Standard}} {
		protocol := tc.protocol
		t.Run(protocol+" "+tc.server, func(t *testing.T) {
			read := make(chan error, 1)
			address, trust := serveForTest(t, tc.server, timeout, func(_ http.ResponseWriter, r *http.Request) {
				if want := map[int]string{1: "http/1.1", 2: "h2"}[r.ProtoMajor]; want != protocol {
					t.Errorf("protocol is %s", want)
				}
				_, err := io.ReadAll(r.Body)
				read <- err
			})
			transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: protocol == "h2"}
			defer transport.CloseIdleConnections()
			body, more := io.Pipe()
			go func() { _, _ = io.WriteString(more, "{") }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address, body)
			if err != nil {
				t.Fatal(err)
			}
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				if response, err := transport.RoundTrip(r); err == nil {
					_ = response.Body.Close()
				}
			}()
			select {
			case err := <-read:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("body ends with %v, want a deadline", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("body is still read")
			}
			cancel()
			if err := more.Close(); err != nil { // else a transport of HTTP/1.1 goes on reading it
				t.Error(err)
			}
			<-answered
		})
	}
}

// A stream that sets its own times, as a watch does, lives longer than a request.
func TestStreamOutlivesRequestTimeout(t *testing.T) {
	for _, server := range []string{HTTP2Weir, HTTP2Standard} {
		t.Run(server, func(t *testing.T) { testStreamOutlivesRequestTimeout(t, server) })
	}
}

func testStreamOutlivesRequestTimeout(t *testing.T, server string) {
	const timeout = 100 * time.Millisecond
	address, trust := serveForTest(t, server, timeout, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}), control.Flush()); err != nil {
			t.Error(err)
		}
		for start := time.Now(); time.Since(start) < 3*timeout && r.Context().Err() == nil; {
			_, _ = fmt.Fprintln(w, "event")
			_ = control.Flush()
			select {
			case <-time.After(timeout / 2):
			case <-r.Context().Done():
			}
		}
		_, _ = fmt.Fprintln(w, "end", r.Context().Err())
	})
	transport := &http.Transport{TLSClientConfig: trust}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	last := ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		last = lines.Text()
	}
	if last != "end <nil>" {
		t.Errorf("the stream ends with %q", last)
	}
}
