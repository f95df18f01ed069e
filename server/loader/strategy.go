package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/rest"
)

// strategyState is what the Loader knows of the Strategy of one resource.
type strategyState struct {
	object *v1alpha1.Strategy
	// compiled is the last known good, nil when there never was one.
	compiled *extension.CompiledStrategy
	// inForce is the generation of the object that compiled was made of.
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
	case s.object.Status.InForce > 0 && s.err != nil:
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
	seen := map[schema.GroupResource]bool{}
	for _, obj := range objects {
		if target, _, ok := h.applyStrategyLocked(obj); ok {
			seen[target] = true
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
		s, err := decodeStrategy(e.Object)
		if err != nil {
			return
		}
		h.removeStrategyLocked(strategyTarget(s))
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
	if err != nil {
		l.cfg.Logger.Error("stored strategy cannot be read", "name", rest.MetaOf(obj).Name(), "error", err)
		return target, false, false
	}
	target = strategyTarget(object)
	s := l.strategies[target]
	same := s != nil && s.object.UID == object.UID && s.object.Generation == object.Generation
	if s == nil {
		s = &strategyState{}
		l.strategies[target] = s
	}
	s.object = object
	if same {
		return target, false, true
	}
	l.compileStrategyLocked(target, s)
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
		l.cfg.Logger.Warn("strategy is not in force; the last known good stays", "name", s.object.Name, "inForce", s.inForce, "error", err)
		if s.compiled == nil {
			if err := l.rebuildLocked(target); err != nil {
				l.cfg.Logger.Error("resource cannot be built", "resource", target.String(), "error", err)
			}
		}
	}
	l.cfg.Metrics.loaded("Strategy", err)
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
			target := strategyTarget(object)
			s := l.strategies[target]
			if s == nil || s.object.UID != object.UID {
				return nil, nil
			}
			status := &object.Status
			status.ObservedGeneration, status.InForce, status.LastError = s.object.Generation, s.inForce, ""
			compiled := metav1.Condition{Type: v1alpha1.StrategyCompiled, Status: metav1.ConditionTrue, Reason: "Compiled", Message: "all layers are compiled"}
			ready := metav1.Condition{Type: v1alpha1.StrategyReady, Status: metav1.ConditionTrue, Reason: "InForce", Message: "every write meets this generation"}
			if s.err != nil {
				status.LastError = bounded(s.err.Error())
				compiled.Status, compiled.Reason, compiled.Message = metav1.ConditionFalse, "Refused", status.LastError
				ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Refused", status.LastError
				if s.compiled != nil {
					ready.Reason = "LastKnownGood"
					ready.Message = bounded(fmt.Sprintf("generation %d stays in force: %s", s.inForce, status.LastError))
				}
			} else if l.entries[target] == nil {
				ready.Status, ready.Reason = metav1.ConditionFalse, "ResourceNotServed"
				ready.Message = fmt.Sprintf("no resource %s is served yet", target)
			}
			setCondition(&status.Conditions, compiled, s.object.Generation, l.cfg.Now())
			setCondition(&status.Conditions, ready, s.object.Generation, l.cfg.Now())
			return status, nil
		})
	})
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

// refusingLayer fails every write of a resource whose strategy is known but cannot be run.
type refusingLayer struct {
	rest.NoHooks
	name   string
	reason error
}

var _ rest.Layer = refusingLayer{}

// Name implements rest.Layer.
func (refusingLayer) Name() string { return "unavailable" }

// Implements implements rest.Layer.
func (refusingLayer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

func (l refusingLayer) refuse() error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("strategy %q of this resource is not available yet, so no write can be checked: %v", l.name, l.reason))
}

// Validate implements rest.Hooks.
func (l refusingLayer) Validate(context.Context, *document.Document) (field.ErrorList, error) {
	return nil, l.refuse()
}

// ValidateUpdate implements rest.Hooks.
func (l refusingLayer) ValidateUpdate(context.Context, *document.Document, *document.Document) (field.ErrorList, error) {
	return nil, l.refuse()
}

// setCondition sets a condition of a configuration object.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition, generation int64, now time.Time) {
	c.ObservedGeneration = generation
	c.LastTransitionTime = metav1.NewTime(now)
	meta.SetStatusCondition(conditions, c)
}

// maxStatusText bounds a text of a status.
const maxStatusText = 8 << 10

func bounded(text string) string {
	if len(text) <= maxStatusText {
		return text
	}
	return text[:maxStatusText] + "…"
}

// updateStatus replaces the status of a configuration object by what change makes; nil leaves it.
func (l *Loader) updateStatus(ctx context.Context, gr schema.GroupResource, name string, change func(old *document.Document) (any, error)) error {
	storage, err := l.statusStorage(gr)
	if err != nil {
		return err
	}
	_, _, err = storage.Update(ctx, name, rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
		status, err := change(old)
		if err != nil || status == nil {
			return old, err
		}
		return old.Edit().Set(status, "status").Document()
	}), nil, nil, false, &metav1.UpdateOptions{})
	return err
}
