package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
	number int
	// first: nothing is in force yet.
	first bool
	// bytes reads the source.
	bytes    func() ([]byte, error)
	progress moduleProgress
}

// run takes a Module through fetch, verification, compilation and tests, and puts it in force.
func (l *moduleLoad) run(ctx context.Context) {
	loaded, err := l.prepare(ctx)
	l.progress.err, l.progress.ended = err, true
	if err != nil && l.first && l.object.Status.Digest != "" && ctx.Err() == nil {
		// After a restart: what was good before is kept here.
		if kept, keptErr := l.restore(ctx); keptErr == nil {
			loaded = kept
		} else {
			l.cfg.Logger.WarnContext(ctx, "last known good artefact cannot be restored",
				"module", l.object.Name, "digest", l.object.Status.Digest, "error", keptErr)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.currentLocked()
	if s == nil || ctx.Err() != nil {
		if loaded != nil {
			loaded.release()
		}
		return
	}
	defer s.settle()
	s.progress = l.progress
	if loaded != nil {
		l.replaceModuleLocked(s, loaded)
	} else if l.first {
		l.recompileUsersLocked(l.object.Name) // they learn why it is not there
		l.publishLocked()
	}
	l.outcome(moduleReference(s.object), err)
	l.enqueueModuleStatus(l.object.Name)
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
	data, err := l.bytes()
	if err == nil {
		data, err = unpack(data)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	l.progress.fetched = true
	digest := host.Digest(data)
	if want := l.object.Spec.Source.Digest; want != "" && want != digest {
		return nil, fmt.Errorf("verify: the source has digest %s, spec.source.digest wants %s", digest, want)
	}
	l.progress.verified = true
	l.reached()
	loaded, err := l.compile(ctx, digest, data)
	if err != nil {
		return nil, err
	}
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
	if err := l.artefacts.put(digest, data); err != nil {
		return nil, fmt.Errorf("keep the artefact: %w", err)
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
	l.configureAhead(ctx, loaded, data)
	return loaded, nil
}

func (l *moduleLoad) compile(ctx context.Context, digest string, data []byte) (*loadedModule, error) {
	limits := hostLimits(l.object.Spec.Limits)
	m, err := l.cfg.Host.Load(ctx, data, host.ModuleConfig{Name: l.object.Name, Limits: limits, Logger: l.cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return &loadedModule{
		name: l.object.Name, digest: digest, limits: limits, hooks: m.Manifest().Hooks,
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
	loaded, err := l.cfg.Host.Load(ctx, data, host.ModuleConfig{
		Name: m.name, Settings: json.RawMessage(settings), Limits: m.limits, Logger: l.cfg.Logger})
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
