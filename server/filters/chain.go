package filters

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/request"
)

// Config says what the chain needs.
type Config struct {
	Logger        *slog.Logger
	Authenticator authenticator.Request
	Authorizer    authorizer.Authorizer
	RequestInfo   apirequest.RequestInfoResolver
	// Open returns nil when a request may be asked about and served: while a server starts it waits for that. nil: any may.
	Open func(context.Context, *request.Info, user.Info) error
	// Pin fixes the set of resources and extensions that a request uses. release is called when
	// the request is done, or for a watch when it has started.
	Pin func(ctx context.Context) (pinned context.Context, release func())
	// RequestTimeout bounds a request that is not a watch; ?timeout may shorten it. Default one minute.
	RequestTimeout time.Duration
	// MaxRequestsInFlight and MaxMutatingRequestsInFlight bound what is served at one time, watches
	// apart. Defaults 400 and 200; negative: no limit.
	MaxRequestsInFlight         int
	MaxMutatingRequestsInFlight int
	// Drain tracks requests so that a shutdown can wait for them.
	Drain *Drain
	// Audit is nil where nothing is audited.
	Audit *audit.Audit
	// Metrics may be nil.
	Metrics *Metrics
}

// Validate reports what is missing and sets defaults.
func (c *Config) Validate() error {
	if c.Logger == nil || c.Authenticator == nil || c.Authorizer == nil || c.RequestInfo == nil || c.Pin == nil || c.Drain == nil {
		return errors.New("filters: Config needs Logger, Authenticator, Authorizer, RequestInfo, Pin and Drain")
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.MaxRequestsInFlight == 0 {
		c.MaxRequestsInFlight = 400
	}
	if c.MaxMutatingRequestsInFlight == 0 {
		c.MaxMutatingRequestsInFlight = 200
	}
	return nil
}

// Chain wraps handler in the filters. The last one in this function is the first that a request meets.
func Chain(handler http.Handler, c Config) (http.Handler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	handler = withSnapshot(handler, c.Pin)
	handler = withAuthorization(handler, c.Authorizer)
	handler = withOpening(handler, c.Open)
	handler = withMaxInFlight(handler, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight, c.Metrics)
	handler = withImpersonation(handler, c.Authorizer)
	handler = withAudit(handler, c.Audit)
	handler = withAuthentication(handler, c.Authenticator, c.Audit)
	handler = withWarnings(handler)
	handler = withDeadline(handler, c.RequestTimeout, c.Audit)
	handler = withDrain(handler, c.Drain)
	handler = withCacheControl(handler)
	handler = withMetrics(handler, c.Metrics)
	handler = withRequestInfo(handler, c.RequestInfo)
	handler = withPanicRecovery(handler, c.Logger)
	handler = withAuditID(handler, c.Audit)
	return handler, nil
}

// isLongRunning reports whether a request is a watch, which no deadline but its own ends and
// which does not count as in flight.
func isLongRunning(info *apirequest.RequestInfo) bool {
	return info != nil && info.IsResourceRequest && info.Verb == "watch"
}
