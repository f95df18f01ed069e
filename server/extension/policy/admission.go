package policy

import (
	"context"
	"errors"

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
	// Namespaces reads namespaces.
	Namespaces rest.Getter
	// Authorizer returns what the variable authorizer of an expression is for a request; nil: there is none.
	Authorizer func(a *admission.Attributes) any
	// Metrics may be nil.
	Metrics *Metrics
}

// Validate reports what is missing.
func (c *Config) Validate() error {
	if c.Namespaces == nil {
		return errors.New("policy admission: Config needs Namespaces")
	}
	return nil
}

// Admission runs the policies of the catalog that is pinned to a request. It is safe for concurrent use.
type Admission struct {
	namespaces rest.Getter
	authorizer func(a *admission.Attributes) any
	metrics    *Metrics
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
	return &Admission{namespaces: cfg.Namespaces, authorizer: cfg.Authorizer, metrics: cfg.Metrics}, nil
}

// Handles implements admission.Mutator and admission.Validator. What a mutator must not see is said by Admit.
func (*Admission) Handles(admission.Operation) bool { return true }

// begin returns the policies that may concern a request, and what they share.
func (x *Admission) begin(ctx context.Context, a *admission.Attributes) (*candidates, *evaluation) {
	catalog, ok := rest.CatalogFrom(ctx).(Catalog)
	if !ok {
		return none, nil
	}
	index := catalog.Policies()
	found := index.candidates(a)
	if found == none {
		return none, nil
	}
	e := &evaluation{attributes: a, ctx: ctx, namespaces: x.namespaces, catalog: catalog, index: index, metrics: x.metrics,
		observer: ObserverFrom(ctx)}
	if received, ok := apirequest.ReceivedTimestampFrom(ctx); ok {
		e.time = received
	}
	if x.authorizer != nil {
		e.authorizer = x.authorizer(a)
	}
	return found, e
}
