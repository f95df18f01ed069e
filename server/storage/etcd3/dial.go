package etcd3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Of a connection on which nothing came for keepaliveTime it is asked whether it lives. Upstream's are 30 and 10 seconds, for which
// all would wait that is sent to a machine that has gone without a word. gRPC takes no shorter time than this, and an etcd, by
// its own default, none below 5 seconds; one that wants it longer says so, and gRPC doubles it.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 4 * time.Second
)

// dialTimeout is upstream's.
const dialTimeout = 20 * time.Second

// Pauses between attempts to connect, and how long one may take.
const (
	redialFirst   = 100 * time.Millisecond
	redialLast    = time.Second
	redialTimeout = 5 * time.Second
)

// How much of a stream is taken in before it is read, and of all streams before gRPC has noted what came. gRPC's own windows
// grow to 16 MiB, which each watch of the past that is not read would fill until its stream is closed: these do not grow. An
// answer that is waited for is let in whole, however large, so that lists and objects are as fast with any window. Not so what
// comes of itself: a watch takes in no more than a window in a round trip. 60 MB in small messages, written in 0.6 s, were seen
// 4.5 s later with 1 MiB at 50 ms, the same 1.2 s with 4 MiB, and at once with gRPC's own; at 10 ms 4 MiB are 400 MB/s, more than
// an etcd writes. The connection's is given back as bytes arrive, read or not. It costs no memory, but bounds what comes
// in a round trip for all lists and watches together: 600 MB/s at 50 ms.
const (
	streamWindow = 4 << 20
	connWindow   = 32 << 20
)

// DialConfig says how to reach an etcd elsewhere.
type DialConfig struct {
	// Endpoints are URLs (https://HOST:PORT, http://, unix://) or HOST:PORT. Required.
	Endpoints []string
	// CAFile, in PEM, signs the server's certificate; "" means the system's roots.
	CAFile string
	// CertFile and KeyFile, in PEM, are the client's certificate; both or none. They
	// are read again for each connection, so they can be renewed on disk.
	CertFile, KeyFile string
	// Logger gets the client's warnings and errors; nil drops them.
	Logger *slog.Logger
	// MaxObjectBytes is the largest object stored; 0 means DefaultMaxObjectBytes.
	MaxObjectBytes int
}

// Validate returns why the configuration cannot work.
func (c DialConfig) Validate() error {
	if len(c.Endpoints) == 0 {
		return errors.New("etcd: endpoints missing")
	}
	for _, e := range c.Endpoints {
		if err := ValidEndpoint(e); err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("etcd: a client certificate needs both its file and its key's")
	}
	if c.MaxObjectBytes < 0 {
		return errors.New("etcd: negative object limit")
	}
	return nil
}

// ValidEndpoint returns why an endpoint cannot be one.
func ValidEndpoint(endpoint string) error {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case endpoint == "":
		return errors.New("empty endpoint")
	case !ok && (strings.HasPrefix(endpoint, "unix:") || strings.HasPrefix(endpoint, "unixs:")):
		return nil
	case !ok:
		rest = endpoint
	case scheme == "unix" || scheme == "unixs":
		if rest == "" {
			return fmt.Errorf("endpoint %q has no path", endpoint)
		}
		return nil
	case !hasScheme(endpoint, "http") && !hasScheme(endpoint, "https"):
		if strings.Contains(endpoint, "@") { // as below
			return errors.New("the scheme of an endpoint is none of http, https and unix")
		}
		return fmt.Errorf("endpoint %q: its scheme is none of http, https and unix", endpoint)
	}
	u, err := url.Parse("http://" + rest)
	switch {
	case err != nil || u.User != nil: // it may hold a password: it is not told
		return errors.New("an endpoint is no URL, such as https://etcd-1:2379")
	case u.Hostname() == "":
		return fmt.Errorf("endpoint %q has no host", endpoint)
	}
	return nil
}

// hasScheme reports whether an endpoint has a scheme, which may be written in any case where it is http or https.
func hasScheme(endpoint, scheme string) bool {
	got, _, ok := strings.Cut(endpoint, "://")
	return ok && strings.EqualFold(got, scheme)
}

// Dial returns a client. It does not wait for a connection: a Store's Ping tells
// whether there is one. Close the client when done.
func Dial(cfg DialConfig) (*clientv3.Client, error) {
	secured, err := cfg.prepare()
	if err != nil {
		return nil, err
	}
	return cfg.dial(secured, nil)
}

// prepare checks the configuration and returns what is to be said of TLS.
func (c DialConfig) prepare() (*tls.Config, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.tls()
}

// dial returns a client whose connections are held where held is not nil.
func (c DialConfig) dial(secured *tls.Config, held *heldConns) (*clientv3.Client, error) {
	limit := c.MaxObjectBytes
	if limit == 0 {
		limit = DefaultMaxObjectBytes
	}
	options := []grpc.DialOption{
		redial(),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
	}
	if held != nil {
		options = append(options, grpc.WithTransportCredentials(&holding{c.credentials(secured), held}),
			grpc.WithIdleTimeout(0)) // its resolver is made once, see DialMembers
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepaliveTime,
		DialKeepAliveTimeout: keepaliveTimeout,
		TLS:                  secured,
		MaxCallSendMsgSize:   limit + requestOverhead,
		MaxCallRecvMsgSize:   math.MaxInt32,
		Logger:               newZap(c.Logger),
		DialOptions:          options,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: dial: %w", err)
	}
	return client, nil
}

// redial bounds the pauses between attempts to connect: gRPC's own grow to two minutes, for which an etcd that is back would
// not be noticed.
func redial() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: redialFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: redialLast},
		MinConnectTimeout: redialTimeout,
	})
}

// credentials are those that etcd's client takes: what the first endpoint is goes for all.
func (c DialConfig) credentials(secured *tls.Config) credentials.TransportCredentials {
	first := c.Endpoints[0]
	if hasScheme(first, "http") || secured == nil && !strings.HasPrefix(first, "unixs:") {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(secured)
}

// tls returns nil where nothing asks for TLS.
func (c DialConfig) tls() (*tls.Config, error) {
	secure := c.CAFile != "" || c.CertFile != ""
	for _, e := range c.Endpoints {
		secure = secure || hasScheme(e, "https")
	}
	if !secure {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd: ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd: ca: %s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("etcd: client certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}
