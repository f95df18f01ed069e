package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/offline"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// OfflineConfig says how policies are judged without a server.
type OfflineConfig struct {
	// CacheDir keeps compiled modules; "": they are compiled each time.
	CacheDir string
	// Metered has the cost of expressions counted exactly, where a server only bounds it, and takes longer.
	Metered bool
	// Logger gets what modules log; nil: nobody does.
	Logger *slog.Logger
}

// Offline is a workbench for policies with the engines, kinds and resources of a server, which does not run.
type Offline struct {
	*offline.Workbench
	host *host.Runtime
}

// NewOffline returns one. The caller closes it, after its sets.
func NewOffline(cfg OfflineConfig) (*Offline, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	set, err := resources.Builtin()
	if err != nil {
		return nil, err
	}
	engine, err := cel.New(cel.Config{AlwaysMeter: cfg.Metered})
	if err != nil {
		return nil, err
	}
	conditions, err := engine.WithLimits(cel.Config{RunLimit: policies.MatchConditionLimit, AlwaysMeter: cfg.Metered})
	if err != nil {
		return nil, err
	}
	rules, err := newRegoCompiler()
	if err != nil {
		return nil, err
	}
	if cfg.CacheDir != "" {
		if err := os.MkdirAll(cfg.CacheDir, 0o700); err != nil {
			return nil, fmt.Errorf("cache directory: %w", err)
		}
	}
	o := &Offline{}
	if o.host, err = host.NewRuntime(host.Config{CacheDir: cfg.CacheDir}); err != nil {
		return nil, err
	}
	engines := policies.Engines{Conditions: conditions, Rules: engine}
	build := newBuilder(set, noRows{}, "/registry", engines, rules, cfg.Logger)
	served := make([]*rest.Resource, 0, len(set.Definitions()))
	for _, d := range set.Definitions() {
		r, err := build.Build(d, false, nil)
		if err != nil {
			return nil, errors.Join(err, o.Close())
		}
		served = append(served, r)
	}
	o.Workbench, err = offline.New(offline.Config{Resources: served, Builder: build, Engines: engines, Rego: rules, Types: typeChecker{engine}, Host: o.host, Logger: cfg.Logger,
		Authorizer: func(a *admission.Attributes, may lookup.Authorizer) any {
			return cel.NewAuthorizer(a.User, authorizedBy{a.User, may}, requestResource{a})
		}})
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// Close frees what runs modules.
func (o *Offline) Close() error { return o.host.Close(context.Background()) }

// authorizedBy is an authorizer that allows what may says of the user of a request.
type authorizedBy struct {
	user user.Info
	may  lookup.Authorizer
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (x authorizedBy) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	asked := &abi.AuthorizeRequest{Verb: a.GetVerb(), Path: a.GetPath()}
	if a.IsResourceRequest() {
		asked = &abi.AuthorizeRequest{Verb: a.GetVerb(), Group: a.GetAPIGroup(), Resource: a.GetResource(), Subresource: a.GetSubresource(),
			Namespace: a.GetNamespace(), Name: a.GetName()}
	}
	if who := a.GetUser(); who != nil && who.GetName() != x.user.GetName() {
		namespace, name, err := serviceaccount.SplitUsername(who.GetName())
		if err != nil {
			return authorizer.DecisionNoOpinion, "", nil //nolint:nilerr // it is somebody else
		}
		asked.ServiceAccount = &abi.ServiceAccount{Namespace: namespace, Name: name}
	}
	if ok, err := x.may.Authorize(ctx, asked); err != nil || !ok {
		return authorizer.DecisionNoOpinion, "", err
	}
	return authorizer.DecisionAllow, "", nil
}

// noRows stands for the storages of resources of which nothing is stored.
type noRows struct{}

// get implements rowStorages.
func (noRows) get(schema.GroupResource, rows) (storage.Interface, func(use bool), error) {
	return unstored{}, func(bool) {}, nil
}

// drop implements rowStorages.
func (noRows) drop(schema.GroupResource) {}

// unstored is a storage that nobody calls.
type unstored struct{ storage.Interface }
