package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
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

// newHTTPServer returns what serves handler over TLS, HTTP/2 and HTTP/1.1, and asks clients for certificates.
func newHTTPServer(handler http.Handler, certFile, keyFile string, clientCAs *x509.CertPool, logger *slog.Logger) (*http.Server, error) {
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
			ClientCAs:  clientCAs,
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
	return s, err
}

// certPool reads the certificates of authorities from PEM files.
func certPool(files ...string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	var errs []error
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !pool.AppendCertsFromPEM(data) {
			errs = append(errs, fmt.Errorf("%s holds no certificate", name))
		}
	}
	return pool, errors.Join(errs...)
}
