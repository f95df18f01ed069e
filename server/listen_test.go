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

// testServing is what differs between the servers of serveForTest.
type testServing struct {
	http2Server string
	timeout     time.Duration
	// noGrace gives answers the time of requests, and no more.
	noGrace bool
}

// serveForTest serves handler and returns its address and what trusts it.
func serveForTest(t *testing.T, c testServing, handler http.HandlerFunc) (string, *tls.Config) {
	t.Helper()
	files, err := EnsureCertificates(filepath.Join(t.TempDir(), "pki"), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s, err := newHTTPServer(serving{
		handler: handler, certFile: files.ServingCertFile, keyFile: files.ServingKeyFile, clientCAs: func() *x509.CertPool { return nil },
		requestTimeout: c.timeout, http2Server: c.http2Server, logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.noGrace {
		s.WriteTimeout -= writeGrace
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

// protocols are who serves what.
var protocols = []struct{ protocol, server string }{
	{"http/1.1", HTTP2Weir}, {"http/1.1", HTTP2Standard}, {"h2", HTTP2Weir}, {"h2", HTTP2Standard},
}

// inTime runs test with a time that a quiet machine keeps, and with longer ones until test reports that this one kept it.
func inTime(t *testing.T, timeout time.Duration, test func(t *testing.T, timeout time.Duration) bool) {
	for kept := false; !kept; timeout *= 4 {
		if timeout > time.Minute {
			t.Fatal("the machine is too busy")
		}
		kept = true // where test does not say so it has failed
		t.Run(timeout.String(), func(t *testing.T) { kept = test(t, timeout) })
	}
}

// A client that begins a body and sends no more lets go of its request when the request's time is up.
func TestSlowBody(t *testing.T) {
	for _, tc := range protocols {
		t.Run(tc.protocol+" "+tc.server, func(t *testing.T) {
			inTime(t, 200*time.Millisecond, func(t *testing.T, timeout time.Duration) bool {
				return testSlowBody(t, tc.protocol, tc.server, timeout)
			})
		})
	}
}

func testSlowBody(t *testing.T, protocol, server string, timeout time.Duration) (kept bool) {
	read := make(chan error, 1)
	address, trust := serveForTest(t, testServing{http2Server: server, timeout: timeout}, func(_ http.ResponseWriter, r *http.Request) {
		if want := map[int]string{1: "http/1.1", 2: "h2"}[r.ProtoMajor]; want != protocol {
			t.Errorf("protocol is %s", want)
		}
		_, err := io.ReadAll(r.Body)
		read <- err
	})
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: protocol == "h2"}
	defer transport.CloseIdleConnections()
	body, more := io.Pipe()
	defer more.Close() // else a transport of HTTP/1.1 goes on reading it
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
	case err = <-read:
	case <-answered:
		select {
		case err = <-read:
		default:
			return false // the time was up before the request had come
		}
	case <-time.After(20*time.Second + timeout):
		t.Error("body is still read")
		return true
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("body ends with %v, want a deadline", err)
	}
	cancel()
	_ = more.Close()
	<-answered
	return true
}

// A stream that sets its own times, as a watch does, lives longer than a request.
func TestStreamOutlivesRequestTimeout(t *testing.T) {
	for _, tc := range protocols {
		t.Run(tc.protocol+" "+tc.server, func(t *testing.T) {
			inTime(t, 100*time.Millisecond, func(t *testing.T, timeout time.Duration) bool {
				return testStreamOutlivesRequestTimeout(t, tc.protocol, tc.server, timeout)
			})
		})
	}
}

func testStreamOutlivesRequestTimeout(t *testing.T, protocol, server string, timeout time.Duration) (kept bool) {
	set := make(chan time.Time, 1)
	address, trust := serveForTest(t, testServing{server, timeout, true}, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}))
		set <- time.Now()
		if errors.Join(err, control.Flush()) != nil {
			return
		}
		for start := time.Now(); time.Since(start) < 3*timeout && r.Context().Err() == nil; {
			_, _ = fmt.Fprintln(w, "event")
			_ = control.Flush()
			select {
			case <-time.After(timeout / 2):
			case <-r.Context().Done():
			}
		}
		_, _ = fmt.Fprintln(w, "end", r.Proto, r.Context().Err())
	})
	transport := &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: protocol == "h2"}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	response, err := transport.RoundTrip(r)
	if err != nil {
		if time.Since(begun) < timeout {
			t.Fatal(err)
		}
		return false
	}
	defer response.Body.Close()
	last := ""
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		last = lines.Text()
	}
	if at := <-set; at.Sub(begun) >= timeout {
		return false // the time may have been up before the stream set its own
	}
	if want := map[string]string{"http/1.1": "end HTTP/1.1 <nil>", "h2": "end HTTP/2.0 <nil>"}[protocol]; last != want {
		t.Errorf("the stream ends with %q, want %q", last, want)
	}
	return true
}
