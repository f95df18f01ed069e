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

	"golang.org/x/net/http2"
)

// Bounds of connections, upstream's.
const (
	maxConcurrentStreams = 250
	maxReadFrameSize     = 256 << 10
	idleTimeout          = 90 * time.Second
	readHeaderTimeout    = 32 * time.Second
)

// listen opens the port.
func listen(c *Config) (net.Listener, error) {
	address := net.JoinHostPort(c.BindAddress, strconv.Itoa(c.SecurePort))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w; choose another --secure-port", address, err)
	}
	return listener, nil
}

// newHTTPServer returns what serves handler over TLS, HTTP/2 and HTTP/1.1, and asks clients for certificates of the
// authorities that clientCAs returns at that time.
func newHTTPServer(handler http.Handler, certFile, keyFile string, clientCAs func() *x509.CertPool, logger *slog.Logger) (*http.Server, error) {
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	s := &http.Server{
		Handler: handler,
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
			// Certificates are asked for and judged by the authenticator: a bad one is a 401 that says so, not
			// a broken connection.
			ClientAuth: tls.RequestClientCert,
			ClientCAs:  clientCAs(),
			NextProtos: []string{"h2", "http/1.1"},
		},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	err = http2.ConfigureServer(s, &http2.Server{
		MaxConcurrentStreams: maxConcurrentStreams,
		MaxReadFrameSize:     maxReadFrameSize,
		IdleTimeout:          idleTimeout,
	})
	s.TLSConfig.GetConfigForClient = freshAuthorities(s.TLSConfig, clientCAs)
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
