package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// Catalog is a rest.Catalog that has policies, such as a snapshot.
type Catalog interface {
	rest.Catalog
	// Policies are those in force, or nil.
	Policies() *Index
}

// Config of an Admission.
type Config struct {
	// Namespaces reads namespaces, without a resourceVersion: at least what this server has acknowledged counts.
	Namespaces rest.Getter
	// Authorizer returns what the variable authorizer of an expression is for a request; nil: there is none.
	Authorizer func(a *admission.Attributes) any
	// Metrics may be nil.
	Metrics *Metrics
	// Timeout bounds what all policies that change a request, and again all that judge it, may take together. When it is
	// over, those that have not judged yet could not, and their failure policies decide. 0: DefaultTimeout.
	Timeout time.Duration
}

// DefaultTimeout is that of one webhook: a cost of ten million takes CEL about a second, and a policy may use it up for
// each of its bindings and params.
const DefaultTimeout = 10 * time.Second

// Validate reports what is missing.
func (c *Config) Validate() error {
	if c.Namespaces == nil {
		return errors.New("policy admission: Config needs Namespaces")
	}
	if c.Timeout < 0 {
		return fmt.Errorf("policy admission: Timeout is %s", c.Timeout)
	}
	return nil
}

// Admission runs the policies of the catalog that is pinned to a request. It is safe for concurrent use.
type Admission struct {
	namespaces rest.Getter
	authorizer func(a *admission.Attributes) any
	metrics    *Metrics
	timeout    time.Duration
	late       error // what is told of it
	inquiries  sync.Pool
}

var (
	_ admission.Mutator   = (*Admission)(nil)
	_ admission.Validator = (*Admission)(nil)
)

// NewAdmission returns an Admission.
func NewAdmission(cfg Config) (*Admission, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	timeout := cmp.Or(cfg.Timeout, DefaultTimeout)
	return &Admission{namespaces: cfg.Namespaces, authorizer: cfg.Authorizer, metrics: cfg.Metrics, timeout: timeout,
		late: fmt.Errorf("the policies of the request took longer than %s together", timeout)}, nil
}

// Handles implements admission.Mutator and admission.Validator. What a mutator must not see is said by Admit.
func (*Admission) Handles(admission.Operation) bool { return true }

// candidates returns the policies that may concern a request, and what they are in.
func (x *Admission) candidates(ctx context.Context, a *admission.Attributes) (*candidates, Catalog) {
	catalog, ok := rest.CatalogFrom(ctx).(Catalog)
	if !ok {
		return none, nil
	}
	return catalog.Policies().candidates(a, catalog), catalog
}

// begin returns what the policies of a request share. The caller has to end it.
func (x *Admission) begin(ctx context.Context, a *admission.Attributes, catalog Catalog) (e *evaluation, end func()) {
	limited, end := context.WithTimeoutCause(ctx, x.timeout, x.late)
	e = &evaluation{attributes: a, ctx: limited, request: ctx, namespaces: x.namespaces, catalog: catalog, index: catalog.Policies(), metrics: x.metrics,
		observer: ObserverFrom(ctx)}
	if received, ok := apirequest.ReceivedTimestampFrom(ctx); ok {
		e.time = received
	}
	if x.authorizer != nil {
		e.authorizer = x.authorizer(a)
	}
	return e, end
}
