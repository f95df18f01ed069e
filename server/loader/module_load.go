package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
)

const (
	// loadTimeout bounds one load: fetch, compile and tests.
	loadTimeout = 2 * time.Minute
	// settingsTimeout bounds the configuration of a compiled module with the settings of a strategy.
	settingsTimeout = 5 * time.Second
)

// moduleLoad is one load of a generation of a Module, off the Loader's lock.
type moduleLoad struct {
	*Loader
	object *v1alpha1.Module
	grants *grants
	number int
	// first: nothing is in force yet.
	first bool
	// watch follows the source; nil when nothing does.
	watch *sourceWatch
	// given is the ConfigMap or Secret that the source was at the start of the load.
	given *document.Document
	// told is the error that was told last.
	told     string
	progress moduleProgress
}

// run takes a Module through fetch, verification, compilation and tests, and puts it in force. A source that is away
// is asked again until it answers or there is a newer load, and so is a disk that does not keep what was fetched.
func (l *moduleLoad) run(ctx context.Context) {
	if l.first && l.remote() {
		l.restoreFirst(ctx)
	}
	for attempt := 0; ; attempt++ {
		loaded, err := l.prepare(ctx)
		l.progress.err, l.progress.ended = err, true
		if err != nil && l.first && !l.remote() {
			loaded = l.restoreKept(ctx)
		}
		var kept *keepError
		again := errors.As(err, &kept) || !l.progress.verified && l.remote()
		if !l.finish(ctx, loaded, err) || err == nil || !again {
			return
		}
		if !l.pause(ctx, backOff(attempt, l.cfg.RefetchInterval)) {
			return
		}
		l.progress = moduleProgress{generation: l.progress.generation}
	}
}

// keepError: the bytes of a module that is good cannot be kept.
type keepError struct{ error }

func (e *keepError) Error() string { return "keep the artefact: " + e.error.Error() }
func (e *keepError) Unwrap() error { return e.error }

// remote reports whether what is fetched, or what it is verified with, may be away and come back without any sign of it.
func (l *moduleLoad) remote() bool {
	s, v := &l.object.Spec.Source, l.object.Spec.Verify
	return s.URL != "" || s.OCI != nil || v != nil && (v.SignatureURL != "" || v.PublicKeyFrom != nil)
}

// restoreFirst puts what was good before a restart in force at once: a registry that does not answer must not hold up
// the server.
func (l *moduleLoad) restoreFirst(ctx context.Context) {
	loaded := l.restoreKept(ctx)
	if loaded == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.currentLocked()
	if s == nil || ctx.Err() != nil {
		loaded.release()
		return
	}
	l.first = false
	l.replaceModuleLocked(s, loaded)
	l.enqueueModuleStatus(l.object.Name)
	s.settle()
}

// restoreKept loads what was good before a restart, nil if there is none.
func (l *moduleLoad) restoreKept(ctx context.Context) *loadedModule {
	if l.object.Status.Digest == "" || ctx.Err() != nil {
		return nil
	}
	kept, err := l.restore(ctx)
	if err != nil {
		l.cfg.Logger.WarnContext(ctx, "last known good artefact cannot be restored",
			"module", l.object.Name, "digest", l.object.Status.Digest, "error", err)
		return nil
	}
	return kept
}

// finish tells what became of an attempt and puts in force what was loaded, which may be nil. It reports whether this
// is still the newest load.
func (l *moduleLoad) finish(ctx context.Context, loaded *loadedModule, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.currentLocked()
	if s == nil || ctx.Err() != nil {
		if loaded != nil {
			loaded.release()
		}
		return false
	}
	defer s.settle()
	s.progress = l.progress
	told := l.told
	if l.told = ""; err != nil {
		l.told = err.Error()
	}
	news := err == nil || told != l.told
	if loaded != nil {
		l.first = false
		l.replaceModuleLocked(s, loaded)
	} else if l.first && news {
		l.recompileUsersLocked(l.object.Name) // they learn why it is not there
		l.publishLocked()
	}
	if news {
		l.outcome(moduleReference(s.object), err, s.inForce != nil)
	}
	l.enqueueModuleStatus(l.object.Name)
	return true
}

// currentLocked returns the state of the module, nil when this load is not the newest.
func (l *moduleLoad) currentLocked() *moduleState {
	if s := l.modules[l.object.Name]; s != nil && s.load == l.number && s.object.UID == l.object.UID {
		return s
	}
	return nil
}

// reached has status say how far the load came.
func (l *moduleLoad) reached() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.currentLocked(); s != nil {
		s.progress = l.progress
		l.enqueueModuleStatus(l.object.Name)
	}
}

// prepare does everything up to the point where a Module can be put in force.
func (l *moduleLoad) prepare(ctx context.Context) (_ *loadedModule, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	a, err := l.fetch(ctx)
	if err != nil {
		return nil, err
	}
	data, digest := a.Module, a.Digest
	loaded, err := l.compile(ctx, digest, data)
	if err != nil {
		l.progress.compiled = waitsForGrant(err)
		return nil, err
	}
	loaded.image = a.Image
	defer func() {
		if err != nil {
			loaded.release()
		}
	}()
	l.progress.compiled = true
	l.reached()
	if err := l.runTests(ctx, l.object, loaded, data); err != nil {
		return nil, err
	}
	l.configureAhead(ctx, loaded, data)
	l.keepAhead(ctx, loaded)
	if err := l.artefacts.put(digest, data); err != nil {
		return nil, &keepError{err}
	}
	return loaded, nil
}

// restore loads the artefact that status says was good.
func (l *moduleLoad) restore(ctx context.Context) (*loadedModule, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	data, err := l.artefacts.get(l.object.Status.Digest)
	if err != nil {
		return nil, err
	}
	loaded, err := l.compile(ctx, l.object.Status.Digest, data)
	if err != nil {
		return nil, err
	}
	loaded.image = l.object.Status.Image
	l.configureAhead(ctx, loaded, data)
	l.keepAhead(ctx, loaded)
	return loaded, nil
}

func (l *moduleLoad) compile(ctx context.Context, digest string, data []byte) (*loadedModule, error) {
	limits := hostLimits(l.object.Spec.Limits)
	capabilities := l.object.Spec.Capabilities
	m, err := l.cfg.Host.Load(ctx, data, l.moduleConfig(l.object.Name, limits, capabilities, l.grants))
	switch {
	case waitsForGrant(err):
		return nil, fmt.Errorf("%s: %w", digest, err)
	case err != nil:
		return nil, fmt.Errorf("compile: %w", err)
	}
	return &loadedModule{
		name: l.object.Name, digest: digest, limits: limits, hooks: slices.Sorted(slices.Values(m.Manifest().Hooks)),
		capabilities: capabilities, asked: m.Manifest().Capabilities, grants: l.grants,
		base: l.share(m), bySettings: map[string]configured{},
	}, nil
}

// configureAhead configures a module with the settings that strategies and policies have for it, so that it takes no time
// when it is put in force.
func (l *moduleLoad) configureAhead(ctx context.Context, loaded *loadedModule, data []byte) {
	keys := map[string]bool{}
	l.mu.Lock()
	for _, s := range l.strategies {
		for _, layer := range s.object.Spec.Layers {
			if layer.Module == nil || layer.Module.Name != loaded.name {
				continue
			}
			if key, err := settingsKey(layer.Module.Settings.Raw); err == nil && key != "" {
				keys[key] = true
			}
		}
	}
	for _, s := range l.policies.policies {
		if s.weir == nil || s.weir.Spec.Wasm == nil || s.weir.Spec.Wasm.Module != loaded.name {
			continue
		}
		if key, err := settingsKey(s.weir.Spec.Wasm.Settings.Raw); err == nil && key != "" {
			keys[key] = true
		}
	}
	l.mu.Unlock()
	for key := range keys {
		loaded.bySettings[key] = l.configure(ctx, loaded, key, data)
	}
}

// configure loads the bytes of a module that is compiled already with settings.
func (l *Loader) configure(ctx context.Context, m *loadedModule, settings string, data []byte) configured {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	config := l.moduleConfig(m.name, m.limits, m.capabilities, m.grants)
	config.Settings = json.RawMessage(settings)
	loaded, err := l.cfg.Host.Load(ctx, data, config)
	if err != nil {
		return configured{err: err}
	}
	return configured{module: l.share(loaded)}
}

// share counts the users of a module that was loaded.
func (l *Loader) share(m *host.Module) *extension.SharedModule {
	name := m.Name()
	l.cfg.Metrics.modules(+1)
	return extension.NewSharedModule(m, func(err error) {
		l.cfg.Metrics.modules(-1)
		if err != nil {
			l.cfg.Logger.Error("module cannot be closed", "module", name, "error", err)
		}
	})
}

func hostLimits(l v1alpha1.ModuleLimits) host.Limits {
	return host.Limits{
		MemoryBytes: int(l.MemoryBytes),
		Fuel:        uint64(l.Fuel),
		Timeout:     time.Duration(l.TimeoutMilliseconds) * time.Millisecond,
	}
}
