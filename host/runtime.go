package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"weir.dev/weir/host/internal/codecache"
	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/snapshot"
)

// Runtime loads modules. It is safe for concurrent use.
type Runtime struct {
	config    Config
	snapshots *snapshot.Engine
	imports   map[string]map[string]importFunc
	metrics   *metrics
	compiling chan struct{} // holds a token for each module being compiled
	garbage   garbage
	janitor   janitor

	mu        sync.Mutex
	artefacts map[artefactKey]*artefact // guarded by mu
	modules   map[*Module]struct{}      // guarded by mu
	past      map[string]poolCounts     // guarded by mu; of closed modules, by name, while another of it is loaded
	codes     *codecache.Cache          // guarded by mu; nil until it is opened
	closed    bool                      // guarded by mu
}

// artefactKey is what makes compiled code differ.
type artefactKey struct {
	digest string
	pages  uint32
	depth  int
}

// NewRuntime returns a runtime. The error is that of Config.Validate, or of
// registering metrics.
func NewRuntime(config Config) (*Runtime, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	m, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	mode := map[RestoreMode]snapshot.Mode{
		RestoreAuto: snapshot.Auto, RestoreCopy: snapshot.Copy,
		RestoreDiscard: snapshot.Discard, RestoreSticky: snapshot.Sticky,
	}[config.Restore]
	r := &Runtime{
		config:    config,
		snapshots: snapshot.NewEngine(mode),
		imports:   imports(),
		metrics:   m,
		compiling: make(chan struct{}, config.Compiles),
		artefacts: map[artefactKey]*artefact{},
		modules:   map[*Module]struct{}{},
		past:      map[string]poolCounts{},
		janitor:   janitor{every: config.IdleTimeout},
	}
	if config.Registerer != nil {
		if err := config.Registerer.Register(poolCollector{r}); err != nil {
			return nil, errors.Join(fmt.Errorf("host: register metrics: %w", err), r.snapshots.Close())
		}
	}
	return r, nil
}

// Close closes all modules as [Module.Close] does, and the runtime.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	var all []*Module
	for m := range r.modules {
		all = append(all, m)
	}
	r.mu.Unlock()
	r.janitor.stop()
	var errs []error
	for _, m := range all {
		errs = append(errs, m.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.garbage.wait()
	return r.snapshots.Close()
}

// Load makes a module ready to be called: it checks, rewrites, compiles,
// describes, configures and warms it, and captures its state. Modules of the
// same bytes and limits share their code. The caller has to Close the module.
// An error is an [Error], or that of the limits.
func (r *Runtime) Load(ctx context.Context, wasm []byte, config ModuleConfig) (*Module, error) {
	if err := config.Limits.Validate(); err != nil {
		return nil, err
	}
	config.Limits = config.Limits.or(r.config.Limits)
	m, err := r.load(ctx, wasm, config)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Class: ClassNotReady, Message: err.Error(), Err: err}
			if ctx.Err() != nil {
				e.Class = ClassDeadline
			}
		}
		e.Module = config.Name
		r.metrics.loaded(e.Class)
		return nil, e
	}
	r.metrics.loaded(0)
	return m, nil
}

func (r *Runtime) load(ctx context.Context, wasm []byte, config ModuleConfig) (*Module, error) {
	if len(wasm) > config.Limits.ModuleBytes {
		return nil, gateError(&rewrite.Error{Kind: rewrite.Limit, Msg: sizeMessage(len(wasm), config.Limits.ModuleBytes)})
	}
	a, err := r.acquire(ctx, wasm, config.Limits)
	if err != nil {
		return nil, err
	}
	m, err := newModule(ctx, a, config)
	if err != nil {
		r.release(a)
		return nil, err
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		_ = m.Close(ctx)
		return nil, errors.New("the runtime is closed")
	}
	r.modules[m] = struct{}{}
	r.mu.Unlock()
	return m, nil
}

// acquire returns the artefact of some bytes, building it at most once at a
// time. It has to be released.
func (r *Runtime) acquire(ctx context.Context, wasm []byte, limits Limits) (*artefact, error) {
	key := artefactKey{digest: Digest(wasm), pages: limits.pages(), depth: limits.Depth}
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return nil, errors.New("the runtime is closed")
		}
		a, ok := r.artefacts[key]
		if !ok {
			a = &artefact{host: r, key: key, digest: key.digest, limits: limits, refs: 1, built: make(chan struct{})}
			r.artefacts[key] = a
			r.mu.Unlock()
			a.err = a.build(ctx, wasm)
			close(a.built)
			if a.err != nil {
				r.release(a)
				return nil, a.err
			}
			return a, nil
		}
		a.refs++
		r.mu.Unlock()
		select {
		case <-a.built:
		case <-ctx.Done():
			r.release(a)
			return nil, context.Cause(ctx)
		}
		if a.err == nil {
			return a, nil
		}
		err := a.err
		r.release(a)
		// If it was only the other's context that ended, it is our turn.
		if ctx.Err() == nil && a.cancelled {
			continue
		}
		return nil, err
	}
}

// release gives up one reference; the last one closes the artefact. One that
// failed is forgotten at once.
func (r *Runtime) release(a *artefact) {
	r.mu.Lock()
	a.refs--
	last := a.refs == 0
	select {
	case <-a.built:
		last = last && !a.closed
		if (last || a.err != nil) && r.artefacts[a.key] == a {
			delete(r.artefacts, a.key)
		}
	default:
		last = false // the builder still holds one
	}
	if last {
		a.closed = true
	}
	r.mu.Unlock()
	if last {
		a.close()
	}
}

// forget removes a closed module, and its metrics unless another of its name
// is loaded.
func (r *Runtime) forget(m *Module) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.modules, m)
	for other := range r.modules {
		if other.config.Name == m.config.Name {
			past := r.past[m.config.Name]
			_, _, counts := m.poolStats()
			past.add(counts)
			r.past[m.config.Name] = past
			return
		}
	}
	delete(r.past, m.config.Name)
	r.metrics.forget(m.config.Name)
}
