package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"weir.dev/weir/server/h2"
)

// Who serves HTTP/2, see Config.HTTP2Server.
const (
	// HTTP2Weir is package h2.
	HTTP2Weir = "weir"
	// HTTP2Standard is the Go library.
	HTTP2Standard = "standard"
)

// Bounds of connections, upstream's.
const (
	maxConcurrentStreams = 250
	maxReadFrameSize     = 256 << 10
	idleTimeout          = 90 * time.Second
	readHeaderTimeout    = 32 * time.Second
	// stallPatience is how long a client may send nothing of its request, or take nothing of its answer, while the server
	// shuts down.
	stallPatience = 3 * time.Second
	// writeGrace is how long an answer may still be on its way when the time of its request is up.
	writeGrace = 30 * time.Second
)

// listen opens the port.
func listen(c *Config) (net.Listener, error) {
	address := net.JoinHostPort(c.BindAddress, strconv.Itoa(c.SecurePort))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another --secure-port", address, err)
	}
	return h2.Listener(listener), nil
}

// serving is what newHTTPServer needs. All fields are required.
type serving struct {
	handler           http.Handler
	certFile, keyFile string
	// clientCAs returns the authorities of that time, whose certificates clients are asked for.
	clientCAs func() *x509.CertPool
	// requestTimeout bounds the body of a request and, with writeGrace, its answer: a client that sends or takes
	// nothing must not hold on to what bounds the requests in flight. A watch sets its own times.
	requestTimeout time.Duration
	// http2Server is Config.HTTP2Server.
	http2Server string
	logger      *slog.Logger
}

// newHTTPServer returns what serves over TLS, HTTP/2 and HTTP/1.1.
func newHTTPServer(c serving) (*http.Server, error) {
	certificate, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	s := &http.Server{
		Handler: c.handler,
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
			// Certificates are asked for and judged by the authenticator: a bad one is a 401 that says so, not
			// a broken connection.
			ClientAuth: tls.RequestClientCert,
			ClientCAs:  c.clientCAs(),
			NextProtos: []string{"h2", "http/1.1"},
			// Small records at the start of an answer spare a browser a round trip. An API's answers are read whole,
			// and a list after a pause would go out in hundreds of writes.
			DynamicRecordSizingDisabled: true,
		},
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       c.requestTimeout,
		WriteTimeout:      c.requestTimeout + writeGrace,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(c.logger.Handler(), slog.LevelDebug),
	}
	if c.http2Server == HTTP2Standard {
		s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxConcurrentStreams, MaxReadFrameSize: maxReadFrameSize}
	} else {
		err = h2.Configure(s, h2.Config{MaxConcurrentStreams: maxConcurrentStreams, MaxReadFrameSize: maxReadFrameSize})
	}
	s.TLSConfig.GetConfigForClient = freshAuthorities(s.TLSConfig, c.clientCAs)
	return s, err
}

// freshAuthorities names the authorities of the moment to each client. Clients choose a certificate by them.
func freshAuthorities(base *tls.Config, clientCAs func() *x509.CertPool) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	var latest atomic.Pointer[tls.Config]
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool := clientCAs()
		if pool == base.ClientCAs {
			return nil, nil // base as it is
		}
		if c := latest.Load(); c != nil && c.ClientCAs == pool {
			return c, nil
		}
		c := base.Clone()
		c.GetConfigForClient = nil
		c.ClientCAs = pool
		latest.Store(c)
		return c, nil
	}
}
