package loader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

// strategyState is what the Loader knows of the Strategy of one resource.
type strategyState struct {
	object  *v1alpha1.Strategy
	version specVersion
	// compiled is the last known good, nil when there never was one.
	compiled *extension.CompiledStrategy
	// inForce is the generation of the object that compiled was made of; without compiled, after a restart, that
	// which was in force before it.
	inForce int64
	// uses are the modules that compiled calls; a reference is held to each.
	uses []*extension.SharedModule
	// err says why the newest generation is not in force.
	err error
}

// layers returns the layers in force, nil for none. A strategy that was in force before the server started
// and cannot be made now refuses writes: what it guarded must not pass unseen.
func (s *strategyState) layers() func(subresource string) []rest.Layer {
	switch {
	case s.compiled != nil:
		return s.compiled.Layers
	case s.inForce > 0:
		refusing := []rest.Layer{refusingLayer{name: s.object.Name, reason: s.err}}
		return func(string) []rest.Layer { return refusing }
	}
	return nil
}

func (s *strategyState) release() {
	for _, m := range s.uses {
		m.Release()
	}
	s.uses = nil
}

func strategyTarget(s *v1alpha1.Strategy) schema.GroupResource {
	return schema.GroupResource{Group: s.Spec.Group, Resource: s.Spec.Resource}
}

// strategyHandler follows the strategies.
type strategyHandler struct{ *Loader }

// Replace implements rest.FollowHandler.
func (h strategyHandler) Replace(objects []*document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetUndecodedLocked(strategyResource)
	seen := map[schema.GroupResource]bool{}
	for _, obj := range objects {
		seen[schema.ParseGroupResource(rest.MetaOf(obj).Name())] = true // its name is that of its target, also where it does not decode
		if target, _, ok := h.applyStrategyLocked(obj); ok {
			seen[target] = true
			h.enqueueStrategyStatus(rest.MetaOf(obj).Name()) // a restored storage may have lost what was written
		}
	}
	for target := range h.strategies {
		if !seen[target] {
			h.removeStrategyLocked(target)
		}
	}
	h.seen.strategies = true
	h.publishLocked()
}

// Change implements rest.FollowHandler.
func (h strategyHandler) Change(e rest.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Type == "DELETED" {
		name := rest.MetaOf(e.Object).Name()
		h.noteDecodedLocked(strategyResource, name, nil)
		target := schema.ParseGroupResource(name) // as validation has it
		if s, err := decodeStrategy(e.Object); err == nil {
			target = strategyTarget(s)
		}
		h.removeStrategyLocked(target)
		h.publishLocked()
		return
	}
	if _, changed, ok := h.applyStrategyLocked(e.Object); ok && changed {
		h.publishLocked()
	}
}

// applyStrategyLocked brings a Strategy into the state.
func (l *Loader) applyStrategyLocked(obj *document.Document) (target schema.GroupResource, changed, ok bool) {
	object, err := decodeStrategy(obj)
	l.noteDecodedLocked(strategyResource, rest.MetaOf(obj).Name(), undecoded(err))
	if err != nil {
		l.cfg.Logger.Error("stored strategy cannot be read", "name", rest.MetaOf(obj).Name(), "error", err)
		return target, false, false
	}
	target = strategyTarget(object)
	s := l.strategies[target]
	if s != nil && s.object.UID != object.UID {
		l.removeStrategyLocked(target)
		s = nil
	}
	if s == nil {
		s = &strategyState{inForce: cmp.Or(object.Status.InForce, object.Status.WasInForce)}
		l.strategies[target] = s
	} else if s.version == specVersionOf(obj) {
		s.object = object
		return target, false, true
	}
	s.object, s.version = object, specVersionOf(obj)
	l.compileStrategyLocked(target, s)
	l.pruneSettingsLocked()
	return target, true, true
}

// compileStrategyLocked makes the layers of the newest generation and puts them in the entry of its resource; when that
// fails the last known good stays.
func (l *Loader) compileStrategyLocked(target schema.GroupResource, s *strategyState) {
	var uses []*extension.SharedModule
	compiled, err := extension.CompileStrategy(l.cfg.Engine, &s.object.Spec, func(name string, settings json.RawMessage) (extension.Guest, error) {
		m, err := l.guestLocked(name, settings)
		if err != nil {
			return nil, err
		}
		uses = append(uses, m)
		return m, nil
	})
	if err == nil {
		for _, m := range uses {
			m.Acquire() // held by its loaded module, so that this cannot fail
		}
		old := *s
		s.compiled, s.uses, s.inForce, s.err = compiled, uses, s.object.Generation, nil
		if err = l.rebuildLocked(target); err == nil {
			old.release()
		} else {
			s.release()
			s.compiled, s.uses, s.inForce = old.compiled, old.uses, old.inForce
		}
	}
	if err != nil {
		s.err = err
		if s.compiled == nil {
			if err := l.rebuildLocked(target); err != nil {
				l.cfg.Logger.Error("resource cannot be built", "resource", target.String(), "error", err)
			}
		}
	}
	if !errors.Is(err, errLoading) {
		l.outcome(strategyReference(s.object), err, s.compiled != nil)
	}
	l.enqueueStrategyStatus(s.object.Name)
}

func (l *Loader) removeStrategyLocked(target schema.GroupResource) {
	s := l.strategies[target]
	if s == nil {
		return
	}
	delete(l.strategies, target)
	if err := l.rebuildLocked(target); err != nil {
		l.cfg.Logger.Error("resource cannot be built", "resource", target.String(), "error", err)
	}
	s.release()
	l.events.forget(s.object.UID)
	l.pruneSettingsLocked()
}

// enqueueStrategyStatus has the conditions of a Strategy written.
func (l *Loader) enqueueStrategyStatus(name string) {
	l.status.enqueue("strategy/"+name, func(ctx context.Context) error {
		return l.updateStatus(ctx, strategyResource, name, func(old *document.Document) (any, error) {
			object, err := decodeStrategy(old)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			s := l.strategies[strategyTarget(object)]
			if s == nil || s.object.UID != object.UID {
				return nil, nil
			}
			l.strategyStatus(&object.Status, s)
			return &object.Status, nil
		})
	})
}

// strategyStatus says whether the newest generation is in force.
func (l *Loader) strategyStatus(status *v1alpha1.StrategyStatus, s *strategyState) {
	status.ObservedGeneration, status.InForce, status.WasInForce, status.LastError = s.object.Generation, s.inForce, 0, ""
	if s.compiled == nil {
		status.InForce, status.WasInForce = 0, s.inForce
	}
	compiled := metav1.Condition{Type: v1alpha1.StrategyCompiled, Status: metav1.ConditionTrue, Reason: "Compiled", Message: "all layers are compiled"}
	ready := metav1.Condition{Type: v1alpha1.StrategyReady, Status: metav1.ConditionTrue, Reason: reasonInForce, Message: "every write meets this generation"}
	target := strategyTarget(s.object)
	switch {
	case s.err != nil:
		status.LastError = bounded(s.err.Error())
		compiled.Status, compiled.Reason, compiled.Message = metav1.ConditionFalse, reasonRefused, status.LastError
		if errors.Is(s.err, errLoading) {
			compiled.Status, compiled.Reason = metav1.ConditionUnknown, reasonInProgress
		}
		ready.Status, ready.Reason, ready.Message = compiled.Status, compiled.Reason, compiled.Message
		switch {
		case s.compiled != nil:
			ready.Status, ready.Reason = metav1.ConditionFalse, reasonLastKnownGood
			ready.Message = bounded(fmt.Sprintf("generation %d stays in force: %s", s.inForce, status.LastError))
		case s.inForce > 0:
			ready.Status, ready.Reason = metav1.ConditionFalse, reasonUnavailable
			ready.Message = bounded("writes are refused with 503, since they cannot be checked: " + status.LastError)
		}
	case l.entries[target] == nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, "ResourceNotServed"
		ready.Message = fmt.Sprintf("no resource %s is served yet", target)
	}
	for _, layer := range s.object.Spec.Layers {
		if layer.Module != nil {
			l.withoutGrantLocked(&ready, layer.Module.Name)
		}
	}
	setCondition(&status.Conditions, compiled, s.object.Generation, l.cfg.Clock.Now())
	setCondition(&status.Conditions, ready, s.object.Generation, l.cfg.Clock.Now())
}

// usesModule reports whether a layer of a Strategy calls a module.
func usesModule(s *v1alpha1.Strategy, module string) bool {
	return slices.ContainsFunc(s.Spec.Layers, func(layer v1alpha1.StrategyLayer) bool {
		return layer.Module != nil && layer.Module.Name == module
	})
}

func decodeStrategy(obj *document.Document) (*v1alpha1.Strategy, error) {
	s := &v1alpha1.Strategy{}
	if err := json.Unmarshal(obj.Bytes(), s); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Strategy: %v", err))
	}
	return s, nil
}
