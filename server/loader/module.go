package loader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

// moduleState is what the Loader knows of one Module object.
type moduleState struct {
	object  *v1alpha1.Module
	version specVersion
	// grants are those of object.
	grants *grants
	// inForce is the last known good, nil when there never was one.
	inForce *loadedModule
	// progress of the newest generation.
	progress moduleProgress
	// load is the number of the newest load; an older one that ends later changes nothing.
	load int
	// stop ends the newest load; nil before the first.
	stop context.CancelFunc
	// source tells when the bytes change; nil for what is inline.
	source *sourceWatch
	// settled is closed when the first load has ended, well or not.
	settled chan struct{}
	once    bool
}

// moduleProgress says how far a generation came.
type moduleProgress struct {
	generation                  int64
	fetched, verified, compiled bool
	// ended: it goes no further, because all is done or because of err.
	ended bool
	err   error
	// from says where the bytes were fetched, and by what they were verified.
	from, by string
}

// loadedModule is an artefact that passed everything.
type loadedModule struct {
	name   string
	digest string
	limits host.Limits
	hooks  []string
	// capabilities were granted when it was loaded, and asked are those that it asks for. grants are the Module's now.
	capabilities, asked []string
	grants              *grants
	// image that it was fetched as, "" if it was not.
	image string
	// base was configured without settings. A reference is held to it, and to each of bySettings.
	base *extension.SharedModule
	// bySettings are configured with the settings of strategies, by their canonical JSON. Loader.mu guards it
	// once the module is in force.
	bySettings map[string]configured
}

// configured is a module with settings, or why it refused them.
type configured struct {
	module *extension.SharedModule
	err    error
}

func (m *loadedModule) release() {
	m.base.Release()
	for _, c := range m.bySettings {
		c.release()
	}
}

func (c configured) release() {
	if c.module != nil {
		c.module.Release()
	}
}

func (s *moduleState) settle() {
	if !s.once {
		s.once = true
		close(s.settled)
	}
}

// end stops everything that goes on for a Module and lets go of what is in force.
func (s *moduleState) end() {
	if s.stop != nil {
		s.stop()
	}
	s.source.stop()
	s.settle()
	if s.inForce != nil {
		s.inForce.release()
		s.inForce = nil
	}
}

// moduleHandler follows the modules.
type moduleHandler struct{ *Loader }

// Replace implements rest.FollowHandler.
func (h moduleHandler) Replace(objects []*document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetUndecodedLocked(moduleResource)
	seen := map[string]bool{}
	for _, obj := range objects {
		seen[rest.MetaOf(obj).Name()] = true
		h.applyModuleLocked(obj)
		h.enqueueModuleStatus(rest.MetaOf(obj).Name()) // a restored storage may have lost what was written
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
		h.noteDecodedLocked(moduleResource, rest.MetaOf(e.Object).Name(), nil)
		h.removeModuleLocked(rest.MetaOf(e.Object).Name())
		h.publishLocked()
		return
	}
	h.applyModuleLocked(e.Object)
}

// applyModuleLocked starts a load when the spec is new.
func (l *Loader) applyModuleLocked(obj *document.Document) {
	object, err := decodeModule(obj)
	l.noteDecodedLocked(moduleResource, rest.MetaOf(obj).Name(), undecoded(err))
	if err != nil {
		l.cfg.Logger.Error("stored module cannot be read", "name", rest.MetaOf(obj).Name(), "error", err)
		return
	}
	s := l.modules[object.Name]
	if s != nil && s.object.UID != object.UID {
		l.removeModuleLocked(object.Name)
		s = nil
	}
	if s == nil {
		s = &moduleState{settled: make(chan struct{}), grants: newGrants(object.Spec.Capabilities)}
		l.modules[object.Name] = s
	} else if s.version == specVersionOf(obj) {
		s.object = object
		return
	}
	s.object, s.version = object, specVersionOf(obj)
	s.grants.set(object.Spec.Capabilities)
	l.enqueueUsersLocked(object.Name)
	l.followSourceLocked(s)
	l.startLoadLocked(s)
}

// startLoadLocked loads the newest generation in the background, in place of a load that is under way.
func (l *Loader) startLoadLocked(s *moduleState) {
	if s.stop != nil {
		s.stop()
	}
	s.load++
	s.progress = moduleProgress{generation: s.object.Generation}
	l.enqueueModuleStatus(s.object.Name)
	if s.source != nil && !s.source.told {
		return // the load starts when it is known what the source has
	}
	load := &moduleLoad{Loader: l, object: s.object, grants: s.grants, number: s.load, first: s.inForce == nil, watch: s.source, progress: s.progress}
	if s.source != nil {
		load.given = s.source.object
	}
	s.stop = l.background.start(load.run)
}

// replaceModuleLocked puts a loaded module in force: every strategy that calls it is made anew, then one
// snapshot is published.
func (l *Loader) replaceModuleLocked(s *moduleState, loaded *loadedModule) {
	old := s.inForce
	s.inForce = loaded
	l.recompileUsersLocked(loaded.name)
	l.publishLocked()
	if old != nil {
		old.release()
	}
}

// removeModuleLocked forgets a Module that is gone. Strategies that call it keep what they have, as with
// every change that fails, and say that it is gone: whoever deletes a module does not mean to open what it
// guards. What it was granted is gone with it, since nobody could take it away any more. After a restart there is nothing left to keep, so that they refuse writes.
func (l *Loader) removeModuleLocked(name string) {
	s := l.modules[name]
	if s == nil {
		return
	}
	delete(l.modules, name)
	s.grants.set(nil)
	l.recompileUsersLocked(name)
	l.events.forget(s.object.UID)
	s.end()
}

// recompileUsersLocked makes every strategy and policy anew that calls a module.
func (l *Loader) recompileUsersLocked(module string) {
	for target, strategy := range l.strategies {
		if usesModule(strategy.object, module) {
			l.compileStrategyLocked(target, strategy)
		}
	}
	l.recompilePoliciesLocked(module)
	l.pruneSettingsLocked()
}

// errLoading: there is nothing to say yet of a Module.
var errLoading = errors.New("it is being loaded")

// inForceLocked returns what is in force of a module.
func (l *Loader) inForceLocked(name string) (*loadedModule, error) {
	s := l.modules[name]
	switch {
	case s == nil:
		return nil, fmt.Errorf("no Module %q exists", name)
	case s.inForce == nil && s.progress.err != nil:
		return nil, fmt.Errorf("module[%s] is not ready: %w", name, s.progress.err)
	case s.inForce == nil:
		return nil, fmt.Errorf("module[%s] is not ready: %w", name, errLoading)
	}
	return s.inForce, nil
}

// guestLocked returns the module in force of a name, configured with settings. The module holds the reference.
func (l *Loader) guestLocked(name string, settings json.RawMessage) (*extension.SharedModule, error) {
	m, err := l.inForceLocked(name)
	if err != nil {
		return nil, err
	}
	key, err := settingsKey(settings)
	if err != nil {
		return nil, fmt.Errorf("settings of module[%s]: %w", name, err)
	}
	if key == "" {
		return m.base, nil
	}
	c, ok := m.bySettings[key]
	if !ok {
		data, err := l.artefacts.get(m.digest)
		if err != nil {
			return nil, fmt.Errorf("module[%s]: %w", name, err)
		}
		c = l.configure(context.Background(), m, key, data)
		m.bySettings[key] = c
	}
	return c.module, c.err
}

// pruneSettingsLocked lets go of modules with settings that no strategy has any more.
func (l *Loader) pruneSettingsLocked() {
	used := map[*extension.SharedModule]bool{}
	for _, s := range l.strategies {
		for _, m := range s.uses {
			used[m] = true
		}
	}
	for _, s := range l.policies.policies {
		for _, m := range s.uses {
			used[m] = true
		}
	}
	for _, s := range l.modules {
		if s.inForce == nil {
			continue
		}
		for key, c := range s.inForce.bySettings {
			if !used[c.module] {
				delete(s.inForce.bySettings, key)
				c.release()
			}
		}
	}
}

// settingsKey returns settings in their canonical form, "" for none.
func settingsKey(settings json.RawMessage) (string, error) {
	if len(settings) == 0 || string(settings) == "null" {
		return "", nil
	}
	d, err := document.Parse(settings)
	if err != nil {
		return "", err
	}
	return string(d.Bytes()), nil
}

func decodeModule(obj *document.Document) (*v1alpha1.Module, error) {
	m := &v1alpha1.Module{}
	if err := json.Unmarshal(obj.Bytes(), m); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Module: %v", err))
	}
	return m, nil
}
