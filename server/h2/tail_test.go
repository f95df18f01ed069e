package h2_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"weir.dev/weir/server/h2"
)

// pipes is a listener of connections without any buffer: what the client does not read stays with the server.
type pipes struct{ conns chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, errors.New("closed")
	}
	return c, nil
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestShutdownOfASlowReader: the end of an answer whose handler has returned is not cut off by the end of the server.
func TestShutdownOfASlowReader(t *testing.T) {
	certificate, trust := testCertificate()
	returned := make(chan struct{})
	s := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(returned)
			_, _ = w.Write(make([]byte, 60_000)) // within the first window
		}),
	}
	if err := h2.Configure(s, h2.Config{}); err != nil {
		t.Fatal(err)
	}
	l := &pipes{make(chan net.Conn, 1)}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(l, "", "") }()
	near, far := net.Pipe()
	defer far.Close() // the server, which serves no listener any more, ends with it
	l.conns <- far
	close(l.conns)
	<-served

	p := newPeerOn(t, tls.Client(near, &tls.Config{RootCAs: trust, ServerName: "127.0.0.1", NextProtos: []string{"h2"}}))
	p.hello()
	p.get(1, "/")
	within(t, returned, "handler")
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	<-time.After(2500 * time.Millisecond) // longer than a connection stays open after its last stream
	got := 0
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			t.Fatalf("%d bytes, then %v", got, err)
		}
		if d, ok := f.(*http2.DataFrame); ok {
			if got += len(d.Data()); d.StreamEnded() {
				break
			}
		}
	}
	if got != 60_000 {
		t.Errorf("%d bytes, want 60000", got)
	}
	_ = p.conn.Close()
	if err := within(t, down, "shutdown"); err != nil {
		t.Error(err)
	}
}
