package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"weir.dev/weir/host"
	"weir.dev/weir/host/source"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// Builder makes what serves a resource of its definition.
type Builder interface {
	// Build returns the resource of d. layers gives those of its strategy, per subresource; it may be nil.
	Build(d *resources.Definition, custom bool, layers func(subresource string) []rest.Layer) (*rest.Resource, error)
	// Drop frees what is kept for a resource that is served no more; its watches end.
	Drop(gr schema.GroupResource)
}

// Config says what a Loader works with.
type Config struct {
	Logger *slog.Logger
	// Definitions are the built-in resources, those of the configuration kinds among them.
	Definitions []*resources.Definition
	Builder     Builder
	Engine      policies.Engine
	// Conditions compiles match conditions of policies, which have a budget of their own; nil: Engine does.
	Conditions policies.Engine
	// Rego compiles policies in Rego; nil: there are none.
	Rego RegoCompiler
	// Types compares the expressions of policies with the schemas of kinds; nil: nobody does.
	Types TypeChecker
	// ServerName names this server in what it counts.
	ServerName string
	Host       *host.Runtime
	// Lookuper and Authorizer answer the modules to which that is granted; nil: such calls fail as not ready.
	Lookuper   host.Lookuper
	Authorizer host.Authorizer
	// LookupKeeper keeps in memory what modules look up.
	LookupKeeper LookupKeeper
	// ModuleDir is the directory below which source.file of a Module is.
	ModuleDir string
	// Sources fetches modules over the network; nil: a client with the defaults. The Loader closes it.
	Sources *source.Client
	// RefetchInterval is how often the tag of an image is resolved again, and the longest pause before a source that is
	// away is asked again; each pause is some percent longer or shorter. 0: five minutes.
	RefetchInterval time.Duration
	// ArtefactDir keeps the bytes of modules that were good, so that they come back after a restart
	// while their source is away.
	ArtefactDir string
	// PolicyDir has policies and bindings in files, beside those that are stored; "": there is none. It is looked at
	// again and again.
	PolicyDir string
	// SuspendPolicies takes all policies out of force, so that whoever they locked out can repair them.
	SuspendPolicies bool
	// Metrics may be nil.
	Metrics *Metrics
	// PolicyMetrics forget the policies that are gone; nil: there are none.
	PolicyMetrics *policy.Metrics
	// Clock says when files are looked at and what times a status has; nil: the real one.
	Clock clock.WithTicker
}

// Validate reports what is missing.
func (c *Config) Validate() error {
	if c.Logger == nil || c.Builder == nil || c.Engine == nil || c.Host == nil || len(c.Definitions) == 0 || c.ArtefactDir == "" {
		return errors.New("loader: Config needs Logger, Definitions, Builder, Engine, Host and ArtefactDir")
	}
	return nil
}

// The configuration resources that a Loader follows.
var (
	crdResource      = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	moduleResource   = schema.GroupResource{Group: "weir.dev", Resource: "modules"}
	strategyResource = schema.GroupResource{Group: "weir.dev", Resource: "strategies"}
)

// Loader keeps a Holder at the newest good state of the configuration objects.
type Loader struct {
	cfg       Config
	holder    *extension.Holder
	artefacts *artefacts
	status    *statusWriter
	events    *events
	// background runs loads, clean-ups, and what follows the sources of modules.
	background *background
	// published has something when there is a new snapshot.
	published chan struct{}
	// first are the built-in resources without any strategy, whose storage the Loader itself reads and writes: no
	// rule of a user is in its way. It never changes.
	first map[schema.GroupResource]*rest.Resource

	crdFollower, moduleFollower, strategyFollower *rest.Follower
	policyFollowers                               map[schema.GroupResource]*rest.Follower

	mu         sync.Mutex
	started    bool                                    // guarded by mu; every kind has been seen once
	generation uint64                                  // guarded by mu
	entries    map[schema.GroupResource]*entry         // guarded by mu; everything that is served
	crds       map[string]*crdState                    // guarded by mu; by name
	modules    map[string]*moduleState                 // guarded by mu; by name
	strategies map[schema.GroupResource]*strategyState // guarded by mu
	policies   *policySet                              // guarded by mu
	files      *policyFiles                            // its set is guarded by mu; nil: there is no directory
	seen       seen                                    // guarded by mu
	undecoded  map[undecodedKey]error                  // guarded by mu; stored objects that are none of their kind
	// dropped are served no more once the next snapshot is published.
	dropped []schema.GroupResource // guarded by mu
}

// seen says which configuration kinds have been listed once.
type seen struct {
	crds, modules, strategies bool
	policies                  map[schema.GroupResource]bool
}

func (s *seen) all() bool {
	return s.crds && s.modules && s.strategies && len(s.policies) == len(PolicyResources())
}

// entry is one resource that is served.
type entry struct {
	definition *resources.Definition
	custom     bool
	// terminating: the definition is being deleted, with all objects.
	terminating bool
	resource    *rest.Resource
}

// New returns a Loader that serves the built-in resources. Run follows the configuration.
func New(cfg Config) (*Loader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Conditions == nil {
		cfg.Conditions = cfg.Engine
	}
	if cfg.LookupKeeper.Interval <= 0 {
		cfg.LookupKeeper.Interval = keepInterval
	}
	if cfg.RefetchInterval == 0 {
		cfg.RefetchInterval = refetchInterval
	}
	if cfg.Sources == nil {
		client, err := source.NewClient(source.Config{})
		if err != nil {
			return nil, err
		}
		cfg.Sources = client
	}
	store, err := newArtefacts(cfg.ArtefactDir, cfg.ModuleDir)
	if err != nil {
		return nil, err
	}
	l := &Loader{
		cfg:        cfg,
		artefacts:  store,
		published:  make(chan struct{}, 1),
		first:      map[schema.GroupResource]*rest.Resource{},
		entries:    map[schema.GroupResource]*entry{},
		crds:       map[string]*crdState{},
		undecoded:  map[undecodedKey]error{},
		modules:    map[string]*moduleState{},
		strategies: map[schema.GroupResource]*strategyState{},
		policies:   newPolicySet(policies.Engines{Conditions: cfg.Conditions, Rules: cfg.Engine}),
		seen:       seen{policies: map[schema.GroupResource]bool{}},
	}
	l.policies.now = cfg.Clock.Now
	for _, d := range cfg.Definitions {
		r, err := cfg.Builder.Build(d, false, nil)
		if err != nil {
			return nil, err
		}
		l.first[d.GroupResource()] = r
		l.entries[d.GroupResource()] = &entry{definition: d, resource: r}
	}
	if err := l.openPolicyFiles(); err != nil {
		return nil, err
	}
	first, err := l.snapshotLocked()
	if err != nil {
		return nil, err
	}
	l.holder = extension.NewHolder(first)
	l.status, l.background = newStatusWriter(cfg.Logger), newBackground()
	eventStorage, ok := l.builtin(eventResource).(rest.Updater)
	if !ok {
		return nil, fmt.Errorf("loader: %s cannot be written", eventResource)
	}
	l.events = newEvents(eventStorage, l.status, cfg.Clock)
	return l, l.follow()
}

// follow makes a follower for each kind of configuration.
func (l *Loader) follow() (err error) {
	if l.crdFollower, err = l.follower(crdResource, crdHandler{l}); err != nil {
		return err
	}
	if l.moduleFollower, err = l.follower(moduleResource, moduleHandler{l}); err != nil {
		return err
	}
	if l.strategyFollower, err = l.follower(strategyResource, strategyHandler{l}); err != nil {
		return err
	}
	l.policyFollowers = map[schema.GroupResource]*rest.Follower{}
	for _, gr := range PolicyResources() {
		if l.policyFollowers[gr], err = l.follower(gr, policyHandler{l, gr}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loader) follower(gr schema.GroupResource, handler rest.FollowHandler) (*rest.Follower, error) {
	watcher, ok := l.builtin(gr).(rest.Watcher)
	if !ok {
		return nil, fmt.Errorf("loader: %s cannot be watched", gr)
	}
	return rest.NewFollower(gr.String(), watcher, handler, l.cfg.Logger), nil
}

// followers returns all.
func (l *Loader) followers() []*rest.Follower {
	all := []*rest.Follower{l.crdFollower, l.moduleFollower, l.strategyFollower}
	for _, f := range l.policyFollowers {
		all = append(all, f)
	}
	return all
}

// Holder has the snapshot in force.
func (l *Loader) Holder() *extension.Holder { return l.holder }

// Run follows the configuration until ctx is done. What is in force then stays so: requests may still be under way,
// and the modules are closed with their host.
func (l *Loader) Run(ctx context.Context) {
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work, writer sync.WaitGroup
	for _, f := range l.followers() {
		work.Go(func() { f.Run(ctx) })
	}
	work.Go(func() { l.background.run(ctx) })
	work.Go(func() { l.followPolicyFiles(ctx) })
	work.Go(func() { l.followTallies(ctx) })
	work.Go(func() { l.keepLookups(ctx) })
	writer.Go(func() { l.status.run(writing) })
	work.Wait()
	stop() // after those that have something written
	writer.Wait()
	l.cfg.Sources.Close()
}

// WaitReady waits until everything that the storage knew at the start is in force or was refused,
// modules included. It fails where something is stored that is none of its kind.
func (l *Loader) WaitReady(ctx context.Context) error {
	if err := l.waitKnown(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	odd := l.undecodedErrorLocked()
	var loading []<-chan struct{}
	for _, m := range l.modules {
		loading = append(loading, m.settled)
	}
	l.mu.Unlock()
	for _, done := range loading {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return odd
}

// waitKnown waits until every kind has been seen once, so that what is known is published. It returns a rest.UnreadableError
// where that cannot come.
func (l *Loader) waitKnown(ctx context.Context) error {
	for _, f := range l.followers() {
		if err := f.WaitKnown(ctx); err != nil {
			return err
		}
	}
	return nil
}

// builtin returns what stores a built-in resource, nil when it is not served.
func (l *Loader) builtin(gr schema.GroupResource) any {
	r := l.first[gr]
	if r == nil || len(r.Versions) == 0 {
		return nil
	}
	return r.Versions[0].Storage
}

// builtinStatus returns what stores the status of a built-in resource.
func (l *Loader) builtinStatus(gr schema.GroupResource) (rest.Updater, error) {
	r := l.first[gr]
	if r == nil || len(r.Versions) == 0 {
		return nil, fmt.Errorf("loader: %s is not served", gr)
	}
	sub := r.Versions[0].Subresources[rest.SubresourceStatus]
	if sub == nil {
		return nil, fmt.Errorf("loader: %s has no status", gr)
	}
	updater, ok := sub.Storage.(rest.Updater)
	if !ok {
		return nil, fmt.Errorf("loader: status of %s cannot be updated", gr)
	}
	return updater, nil
}

// rebuildLocked makes the resource of an entry anew, with the strategy that is in force for it.
func (l *Loader) rebuildLocked(gr schema.GroupResource) error {
	e := l.entries[gr]
	if e == nil {
		return nil
	}
	var layers func(string) []rest.Layer
	if s := l.strategies[gr]; s != nil {
		layers = s.layers()
	}
	if e.terminating {
		layers = terminating(layers)
	}
	r, err := l.cfg.Builder.Build(e.definition, e.custom, layers)
	if err != nil {
		return err
	}
	e.resource = r
	return nil
}

// publishLocked puts the state in force for every request that starts from now on.
func (l *Loader) publishLocked() {
	if !l.started {
		l.started = l.seen.all()
		if !l.started {
			return
		}
	}
	next, err := l.snapshotLocked()
	if err != nil {
		// A module was closed under a strategy that uses it: references rule that out.
		l.cfg.Logger.Error("snapshot cannot be made; the last one stays in force", "error", err)
		return
	}
	l.holder.Publish(next)
	select {
	case l.published <- struct{}{}:
	default:
	}
	l.cfg.Metrics.published(l.generation)
	for _, gr := range l.dropped {
		if l.entries[gr] == nil { // not served again meanwhile
			l.cfg.Builder.Drop(gr)
		}
	}
	l.dropped = nil
}

func (l *Loader) snapshotLocked() (*extension.Snapshot, error) {
	l.generation++
	config := extension.SnapshotConfig{Generation: l.generation, Resources: make([]*rest.Resource, 0, len(l.entries)), Policies: l.indexLocked()}
	for _, e := range l.entries {
		config.Resources = append(config.Resources, e.resource)
	}
	for _, s := range l.strategies {
		config.Modules = append(config.Modules, s.uses...)
	}
	for _, s := range l.policies.policies {
		config.Modules = append(config.Modules, s.uses...)
	}
	return extension.NewSnapshot(config)
}

// takenLocked returns the names that the resources of a group other than gr have.
func (l *Loader) takenLocked(group string, except schema.GroupResource) takenNames {
	taken := takenNames{resources: map[string]bool{}, kinds: map[string]bool{}}
	for gr, e := range l.entries {
		if gr.Group != group || gr == except {
			continue
		}
		d := e.definition
		taken.resources[d.Resource], taken.resources[d.Singular] = true, true
		for _, s := range d.ShortNames {
			taken.resources[s] = true
		}
		taken.kinds[d.Kind], taken.kinds[d.ListKind] = true, true
	}
	return taken
}
