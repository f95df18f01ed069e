package h2_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/weir/server/h2"
)

// The servers that are compared.
const (
	standard = "standard"
	ours     = "weir"
)

// serving is a server of a test.
type serving struct {
	address string
	trust   *x509.CertPool
	server  *http.Server
	// listener is what it serves.
	listener net.Listener
}

// options say how a server of a test differs.
type options struct {
	config    h2.Config
	configure func(*http.Server)
	// plain serves a listener that is not of this package.
	plain bool
	// below wraps the listener that this package's has.
	below func(net.Listener) net.Listener
	log   io.Writer
}

var testCertificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
})

// serve serves handler until the test ends.
func serve(t testing.TB, name string, o options, handler http.HandlerFunc) *serving {
	t.Helper()
	certificate, pool := testCertificate()
	output := o.log
	if output == nil {
		output = io.Discard
	}
	s := &http.Server{
		Handler: handler, ErrorLog: log.New(output, "", 0), IdleTimeout: 90 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, DynamicRecordSizingDisabled: true},
	}
	if o.configure != nil {
		o.configure(s)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if o.below != nil {
		listener = o.below(listener)
	}
	switch name {
	case standard:
		s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: int(o.config.MaxConcurrentStreams)}
	case ours:
		err = h2.Configure(s, o.config)
		if !o.plain {
			listener = h2.Listener(listener)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if name == ours {
			nothingLeft(t)
		}
	})
	return &serving{address: address, trust: pool, server: s, listener: listener}
}

// left says that a test has failed because something was left, which is there in those after it too.
var left atomic.Bool

// nothingLeft waits until no goroutine of the package is left.
func nothingLeft(t testing.TB) {
	if left.Load() {
		return
	}
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(20 * time.Second); ; <-time.After(time.Millisecond) { // each look stops all
		text := stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(text, []byte("weir/server/h2.(*")) {
			return
		}
		if time.Now().After(end) {
			left.Store(true)
			t.Errorf("goroutines are left:\n%s", text)
			return
		}
	}
}

func (s *serving) tlsConfig(protocols ...string) *tls.Config {
	return &tls.Config{RootCAs: s.trust, NextProtos: protocols}
}

// client returns a client of HTTP/2.
func (s *serving) client(t testing.TB) *http.Client {
	// One connection: what a server allows at one time is waited for.
	transport := &http.Transport{
		TLSClientConfig: s.tlsConfig(), ForceAttemptHTTP2: true, DisableCompression: true,
		HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// dial opens a connection that speaks h2 and has said nothing.
func (s *serving) dial(t testing.TB) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", s.address, s.tlsConfig("h2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// bothServers runs a test on the library's server and on this package's, with and without its listener.
func bothServers(t *testing.T, test func(t *testing.T, start func(options, http.HandlerFunc) *serving)) {
	for _, name := range []string{standard, ours, "plain listener"} {
		t.Run(name, func(t *testing.T) {
			test(t, func(o options, handler http.HandlerFunc) *serving {
				if name == "plain listener" {
					o.plain = true
					return serve(t, ours, o, handler)
				}
				return serve(t, name, o, handler)
			})
		})
	}
}

// within fails the test when ch does not deliver in time.
func within[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not in time", what)
		panic("unreachable")
	}
}

func request(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
