package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Defaults of a Config.
const (
	// DefaultMaxBytes of a module.
	DefaultMaxBytes = 64 << 20
	// DefaultTimeout of one fetch.
	DefaultTimeout = time.Minute
)

const (
	// maxDocumentBytes bounds what is no module: manifests (registries take no larger ones), tokens, signatures.
	maxDocumentBytes = 4 << 20
	maxRedirects     = 5

	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	headerTimeout    = 30 * time.Second
	idleTimeout      = 30 * time.Second
	maxIdle          = 4
	maxHeaderBytes   = 64 << 10
)

// Config says how a Client fetches. The zero value is good.
type Config struct {
	// MaxBytes of a module, packed and unpacked. Default DefaultMaxBytes.
	MaxBytes int64
	// Timeout of one fetch or verification, with all its requests. Default DefaultTimeout.
	Timeout time.Duration
	// Roots are the authorities of servers; nil: those of the system.
	Roots *x509.CertPool
	// Proxy names the proxy of a request; nil: there is none, whatever the environment says.
	Proxy func(*http.Request) (*url.URL, error)
	// UserAgent of requests. Default "weir".
	UserAgent string
}

// Validate reports what is wrong with c.
func (c *Config) Validate() error {
	if c.MaxBytes < 0 || c.Timeout < 0 {
		return errors.New("source: Config has a negative limit")
	}
	return nil
}

// Client fetches over the network.
type Client struct {
	cfg       Config
	transport *http.Transport
}

// NewClient returns a Client. Close it when it is done.
func NewClient(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "weir"
	}
	return &Client{cfg: cfg, transport: &http.Transport{
		Proxy:                  cfg.Proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           maxIdle,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // it would unpack without a bound, and what is signed is what is sent
	}}, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

func (c *Client) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// guard is the transport below every request: it holds what the package promises, whatever library makes requests.
type guard struct {
	*Client
	// plainHTTP allows http to loopback.
	plainHTTP bool
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme == "https":
	case r.URL.Scheme != "http":
		return nil, fmt.Errorf("%s is neither https nor http", r.URL.Scheme)
	case r.Response != nil:
		return nil, errors.New("a redirect to plain http is not followed")
	case !g.plainHTTP || !loopback(r.URL.Hostname()):
		return nil, errors.New("plain http is for loopback only, where it is asked for")
	}
	response, err := g.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	limit, ok := r.Context().Value(limitKey{}).(int64)
	if !ok {
		limit = maxDocumentBytes
	}
	if r.Method != http.MethodHead && response.ContentLength > limit {
		_ = response.Body.Close() // it is not wanted
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, response.ContentLength, limit)
	}
	response.Body = &boundedBody{boundedReader{r: response.Body, left: limit}, response.Body}
	return response, nil
}

// limitKey is that of the most bytes of a body, an int64 in the context of a request.
type limitKey struct{}

// withLimit lets the bodies of answers be larger than documents are.
func withLimit(ctx context.Context, limit int64) context.Context {
	return context.WithValue(ctx, limitKey{}, limit)
}

type boundedBody struct {
	boundedReader
	io.Closer
}

// checkRedirect implements http.Client.CheckRedirect.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// loopback reports whether a host is this machine by its name alone.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
