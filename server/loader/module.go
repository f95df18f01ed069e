package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

// moduleState is what the Loader knows of one Module object.
type moduleState struct {
	object *v1alpha1.Module
	// inForce is the last known good, nil when there never was one.
	inForce *loadedModule
	// progress of the newest generation.
	progress moduleProgress
	// load is the number of the newest load; an older one that ends later changes nothing.
	load int
	// cancel stops the newest load.
	cancel context.CancelFunc
	// done is closed when the first load has ended, well or not.
	done chan struct{}
	once bool
}

// moduleProgress says how far a generation came.
type moduleProgress struct {
	generation                  int64
	fetched, verified, compiled bool
	// err says why it went no further.
	err error
}

// loadedModule is an artefact that passed everything.
type loadedModule struct {
	name   string
	digest string
	limits host.Limits
	hooks  []string
	// base was configured without settings; bySettings with those of strategies. A reference is held to each.
	base       *extension.SharedModule
	bySettings map[string]*extension.SharedModule
}

func (m *loadedModule) release() {
	m.base.Release()
	for _, shared := range m.bySettings {
		shared.Release()
	}
}

// settled is closed when the first load has ended.
func (s *moduleState) settled() <-chan struct{} { return s.done }

func (s *moduleState) settle() {
	if !s.once {
		s.once = true
		close(s.done)
	}
}

// moduleHandler follows the modules.
type moduleHandler struct{ *Loader }

// Replace implements rest.FollowHandler.
func (h moduleHandler) Replace(objects []*document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[string]bool{}
	for _, obj := range objects {
		seen[rest.MetaOf(obj).Name()] = true
		h.applyModuleLocked(obj)
	}
	for name := range h.modules {
		if !seen[name] {
			h.removeModuleLocked(name)
		}
	}
	h.seen.modules = true
	h.publishLocked()
}

// Change implements rest.FollowHandler.
func (h moduleHandler) Change(e rest.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Type == "DELETED" {
		h.removeModuleLocked(rest.MetaOf(e.Object).Name())
		h.publishLocked()
		return
	}
	h.applyModuleLocked(e.Object)
}

// applyModuleLocked starts a load when the spec is new.
func (l *Loader) applyModuleLocked(obj *document.Document) {
	object, err := decodeModule(obj)
	if err != nil {
		l.cfg.Logger.Error("stored module cannot be read", "name", rest.MetaOf(obj).Name(), "error", err)
		return
	}
	s := l.modules[object.Name]
	if s == nil {
		s = &moduleState{done: make(chan struct{})}
		l.modules[object.Name] = s
	} else if s.object.UID == object.UID && s.object.Generation == object.Generation {
		s.object = object
		return
	}
	s.object = object
	l.startLoadLocked(s)
}

// startLoadLocked loads the newest generation in the background, in place of a load that is under way.
func (l *Loader) startLoadLocked(s *moduleState) {
	if s.cancel != nil {
		s.cancel()
	}
	s.load++
	s.progress = moduleProgress{generation: s.object.Generation}
	number, object, first := s.load, s.object, s.inForce == nil
	stopped := make(chan struct{})
	s.cancel = func() {
		select {
		case <-stopped:
		default:
			close(stopped)
		}
	}
	l.background.start(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-stopped:
				cancel()
			case <-ctx.Done():
			}
		}()
		l.load(ctx, object, number, first)
	})
	l.enqueueModuleStatus(object.Name)
}

// load takes a Module through fetch, verification, compilation and tests, and puts it in force.
func (l *Loader) load(ctx context.Context, object *v1alpha1.Module, number int, first bool) {
	progress := moduleProgress{generation: object.Generation}
	loaded, err := l.prepare(ctx, object, &progress)
	progress.err = err
	if err != nil && first && object.Status.Digest != "" {
		// After a restart: what was good before is kept here.
		if kept, keptErr := l.restore(ctx, object); keptErr == nil {
			loaded = kept
		} else {
			l.cfg.Logger.WarnContext(ctx, "last known good artefact cannot be restored", "module", object.Name, "digest", object.Status.Digest, "error", keptErr)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.modules[object.Name]
	if s == nil || s.load != number || ctx.Err() != nil {
		if loaded != nil {
			loaded.release()
		}
		return
	}
	defer s.settle()
	s.progress = progress
	l.cfg.Metrics.loaded("Module", err)
	if err != nil {
		l.cfg.Logger.WarnContext(ctx, "module is not in force; the last known good stays", "module", object.Name, "error", err)
	}
	if loaded != nil {
		l.replaceModuleLocked(s, loaded)
	}
	l.enqueueModuleStatus(object.Name)
}

// replaceModuleLocked puts a loaded module in force: every strategy that calls it is made anew, then one
// snapshot is published.
func (l *Loader) replaceModuleLocked(s *moduleState, loaded *loadedModule) {
	old := s.inForce
	s.inForce = loaded
	for target, strategy := range l.strategies {
		if usesModule(strategy.object, loaded.name) {
			l.compileStrategyLocked(target, strategy)
		}
	}
	l.publishLocked()
	if old != nil {
		old.release()
	}
}

func (l *Loader) removeModuleLocked(name string) {
	s := l.modules[name]
	if s == nil {
		return
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.settle()
	delete(l.modules, name)
	// Strategies that call it keep what they have, and say that it is gone.
	for target, strategy := range l.strategies {
		if usesModule(strategy.object, name) {
			l.compileStrategyLocked(target, strategy)
		}
	}
	if s.inForce != nil {
		s.inForce.release()
	}
}

// loadTimeout bounds one load: fetch, compile and tests.
const loadTimeout = 2 * time.Minute

// prepare does everything up to the point where a Module can be put in force.
func (l *Loader) prepare(ctx context.Context, object *v1alpha1.Module, progress *moduleProgress) (*loadedModule, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	data, err := l.fetch(ctx, &object.Spec.Source)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	progress.fetched = true
	digest := host.Digest(data)
	if want := object.Spec.Source.Digest; want != "" && want != digest {
		return nil, fmt.Errorf("verify: the source has digest %s, spec.source.digest wants %s", digest, want)
	}
	progress.verified = true
	loaded, err := l.compile(ctx, object, digest, data)
	if err != nil {
		return nil, err
	}
	progress.compiled = true
	if err := l.runTests(ctx, object, loaded, data); err != nil {
		loaded.release()
		return nil, err
	}
	if err := l.artefacts.put(digest, data); err != nil {
		loaded.release()
		return nil, fmt.Errorf("keep the artefact: %w", err)
	}
	return loaded, nil
}

// restore loads the artefact that status says was good.
func (l *Loader) restore(ctx context.Context, object *v1alpha1.Module) (*loadedModule, error) {
	data, err := l.artefacts.get(object.Status.Digest)
	if err != nil {
		return nil, err
	}
	return l.compile(ctx, object, object.Status.Digest, data)
}

func (l *Loader) compile(ctx context.Context, object *v1alpha1.Module, digest string, data []byte) (*loadedModule, error) {
	limits := host.Limits{
		MemoryBytes: int(object.Spec.Limits.MemoryBytes),
		Fuel:        uint64(object.Spec.Limits.Fuel),
		Timeout:     time.Duration(object.Spec.Limits.TimeoutMilliseconds) * time.Millisecond,
	}
	m, err := l.cfg.Host.Load(ctx, data, host.ModuleConfig{Name: object.Name, Limits: limits, Logger: l.cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	loaded := &loadedModule{name: object.Name, digest: digest, limits: limits,
		base: l.share(m), bySettings: map[string]*extension.SharedModule{}}
	for _, hook := range m.Manifest().Hooks {
		loaded.hooks = append(loaded.hooks, fmt.Sprint(hook))
	}
	return loaded, nil
}

// share counts the users of a module that was loaded.
func (l *Loader) share(m *host.Module) *extension.SharedModule {
	name := m.Name()
	return extension.NewSharedModule(m, func(err error) {
		if err != nil {
			l.cfg.Logger.Error("module cannot be closed", "module", name, "error", err)
		}
	})
}

// settingsTimeout bounds the configuration of a compiled module with the settings of a strategy.
const settingsTimeout = 5 * time.Second

// guestLocked returns the module in force of a name, configured with settings. The module holds the reference.
func (l *Loader) guestLocked(name string, settings json.RawMessage) (*extension.SharedModule, error) {
	s := l.modules[name]
	switch {
	case s == nil:
		return nil, fmt.Errorf("no Module %q exists", name)
	case s.inForce == nil && s.progress.err != nil:
		return nil, fmt.Errorf("module[%s] is not ready: %w", name, s.progress.err)
	case s.inForce == nil:
		return nil, fmt.Errorf("module[%s] is not ready: it is being loaded", name)
	}
	m := s.inForce
	if len(settings) == 0 || string(settings) == "null" {
		return m.base, nil
	}
	canonical, err := document.Parse(settings)
	if err != nil {
		return nil, fmt.Errorf("settings of module[%s]: %w", name, err)
	}
	key := string(canonical.Bytes())
	if shared, ok := m.bySettings[key]; ok {
		return shared, nil
	}
	data, err := l.artefacts.get(m.digest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), settingsTimeout)
	defer cancel()
	loaded, err := l.cfg.Host.Load(ctx, data, host.ModuleConfig{Name: name, Settings: json.RawMessage(key), Limits: m.limits, Logger: l.cfg.Logger})
	if err != nil {
		return nil, err
	}
	shared := l.share(loaded)
	m.bySettings[key] = shared
	return shared, nil
}

// enqueueModuleStatus has the conditions of a Module written.
func (l *Loader) enqueueModuleStatus(name string) {
	l.status.enqueue("module/"+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, moduleResource, name, func(old *document.Document) (any, error) {
			object, err := decodeModule(old)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			s := l.modules[name]
			if s == nil || s.object.UID != object.UID {
				return nil, nil
			}
			l.moduleStatus(&object.Status, s)
			return &object.Status, nil
		})
	})
}

// moduleStatus says how far the newest generation came and what is in force.
func (l *Loader) moduleStatus(status *v1alpha1.ModuleStatus, s *moduleState) {
	p := s.progress
	status.ObservedGeneration, status.LastError = p.generation, ""
	status.Digest, status.Hooks = "", nil
	if s.inForce != nil {
		status.Digest, status.Hooks = s.inForce.digest, s.inForce.hooks
	}
	if p.err != nil {
		status.LastError = bounded(p.err.Error())
	}
	running := p.err == nil && (s.inForce == nil || !p.compiled)
	step := func(kind string, done bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
		switch {
		case done:
		case running:
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, "InProgress", ""
		default:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Refused", status.LastError
		}
		setCondition(&status.Conditions, c, p.generation, l.cfg.Now())
	}
	step(v1alpha1.ModuleFetched, p.fetched, "Fetched", "")
	step(v1alpha1.ModuleVerified, p.verified, "Verified", "")
	step(v1alpha1.ModuleCompiled, p.compiled, "Compiled", "")
	ready := metav1.Condition{Type: v1alpha1.ModuleReady, Status: metav1.ConditionTrue, Reason: "InForce", Message: "this generation is in force"}
	switch {
	case running:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, "InProgress", ""
	case p.err != nil && s.inForce != nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, "LastKnownGood"
		ready.Message = bounded(fmt.Sprintf("%s stays in force: %v", s.inForce.digest, p.err))
	case p.err != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Refused", status.LastError
	}
	setCondition(&status.Conditions, ready, p.generation, l.cfg.Now())
}

func decodeModule(obj *document.Document) (*v1alpha1.Module, error) {
	m := &v1alpha1.Module{}
	if err := json.Unmarshal(obj.Bytes(), m); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Module: %v", err))
	}
	return m, nil
}
