package endpoints

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/admission"
)

const (
	// DefaultMaxRequestBodyBytes is upstream's bound on a body; a larger one is 413.
	DefaultMaxRequestBodyBytes = 3 << 20
	// DefaultMinRequestTimeout is the shortest time a watch without timeoutSeconds
	// is open; it is at most twice as long.
	DefaultMinRequestTimeout = 30 * time.Minute
	// DefaultWriteTimeout bounds every request but a list, a deletecollection and a watch.
	DefaultWriteTimeout = 34 * time.Second
)

// Config is what New needs. The zero value serves without admission and trusts
// that filters have authorized every request.
type Config struct {
	// Admission runs around every write. Nil admits all.
	Admission *admission.Chain
	// Authorizer is asked for `create` when a PUT or an apply is about to create an
	// object. Nil allows it.
	Authorizer authorizer.UnconditionalAuthorizer
	// MaxRequestBodyBytes bounds a body. 0 means DefaultMaxRequestBodyBytes.
	MaxRequestBodyBytes int
	// MinRequestTimeout: see DefaultMinRequestTimeout, its value where this is 0.
	MinRequestTimeout time.Duration
	// WriteTimeout: see DefaultWriteTimeout, its value where this is 0.
	WriteTimeout time.Duration
	// ServerAddress is host:port for serverAddressByClientCIDRs of /api, "" for the request's Host.
	ServerAddress string
	// Version is the `version` of OpenAPI documents, e.g. v1.37.0.
	Version string
	// Now is the clock of Tables. Nil means time.Now.
	Now func() time.Time
	// Logger gets what cannot be told to a client. Nil discards.
	Logger *slog.Logger
}

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	if c.MaxRequestBodyBytes < 0 {
		errs = append(errs, errors.New("maxRequestBodyBytes is negative"))
	}
	if c.MinRequestTimeout < 0 {
		errs = append(errs, errors.New("minRequestTimeout is negative"))
	}
	if c.WriteTimeout < 0 {
		errs = append(errs, errors.New("writeTimeout is negative"))
	}
	return errors.Join(errs...)
}

// New returns the handler of /api, /apis and /openapi.
func New(c Config) (http.Handler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.MaxRequestBodyBytes == 0 {
		c.MaxRequestBodyBytes = DefaultMaxRequestBodyBytes
	}
	if c.MinRequestTimeout == 0 {
		c.MinRequestTimeout = DefaultMinRequestTimeout
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = DefaultWriteTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return newContainer(&server{Config: c}), nil
}

// server has the verbs as methods, one file each.
type server struct {
	Config
}
