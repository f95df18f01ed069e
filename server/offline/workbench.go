package offline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/rest"
)

// Config says what a Workbench works with.
type Config struct {
	// Resources are the built-in ones. Their storages are not used.
	Resources []*rest.Resource
	// Builder makes resources of CustomResourceDefinitions.
	Builder loader.Builder
	Engines policies.Engines
	// Rego compiles policies in Rego; nil: there are none.
	Rego loader.RegoCompiler
	// Types compares expressions with the schemas of kinds; nil: nobody does.
	Types loader.TypeChecker
	// Host runs modules; nil: there are none. The caller closes it.
	Host *host.Runtime
	// Authorizer returns what the variable authorizer of an expression is for a request, where users may do what may says;
	// nil: there is none.
	Authorizer func(a *admission.Attributes, may lookup.Authorizer) any
	Logger     *slog.Logger
}

// Validate reports what is missing.
func (c *Config) Validate() error {
	if len(c.Resources) == 0 || c.Builder == nil || c.Engines.Rules == nil || c.Engines.Conditions == nil || c.Logger == nil {
		return errors.New("offline: Config needs Resources, Builder, Engines and Logger")
	}
	return nil
}

// Workbench compiles sets of policies. It may be used concurrently.
type Workbench struct {
	cfg       Config
	resources map[schema.GroupResource]*rest.Resource
}

// New returns a Workbench.
func New(cfg Config) (*Workbench, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Workbench{cfg: cfg, resources: map[schema.GroupResource]*rest.Resource{}}
	for _, r := range cfg.Resources {
		w.resources[r.GroupResource()] = inMemory(r)
	}
	return w, nil
}

// admission asks the policies about a request, where users may do what may says.
func (w *Workbench) admission(may lookup.Authorizer) (*policy.Admission, error) {
	cfg := policy.Config{Namespaces: namespaces{}}
	if w.cfg.Authorizer != nil {
		cfg.Authorizer = func(a *admission.Attributes) any { return w.cfg.Authorizer(a, may) }
	}
	return policy.NewAdmission(cfg)
}

// stored is the part of a registry.Store that is used of the storage of a resource that is not stored.
type stored interface {
	Strategy() rest.Strategy
}

// accept does with an object of a configuration kind what a server does that is to create it: unknown fields are
// errors, defaults are filled in, and it is validated.
func (w *Workbench) accept(ctx context.Context, gr schema.GroupResource, obj *document.Document) (*document.Document, error) {
	r := w.resources[gr]
	if r == nil {
		return nil, fmt.Errorf("%s is not served", gr)
	}
	kind := rest.KindOf(obj)
	v := r.Version(kind.Version)
	if v == nil {
		return nil, fmt.Errorf("version %q of %s is not served", kind.Version, gr)
	}
	_, unknown, err := v.Schema.Prune(obj)
	switch {
	case err != nil:
		return nil, err
	case len(unknown) > 0:
		return nil, fmt.Errorf("unknown field %q", unknown[0])
	}
	s, ok := v.Storage.(memory)
	if !ok || s.strategy == nil {
		return nil, fmt.Errorf("%s cannot be created", gr)
	}
	if obj, err = policy.Convert(ctx, r, obj, kind.Version, r.StorageVersion); err != nil {
		return nil, err
	}
	return rest.BeforeCreate(rest.WithCatalog(ctx, &catalog{resources: w.resources}), s.strategy, obj)
}
