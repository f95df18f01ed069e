package loader

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// crdState is what the Loader knows of one CustomResourceDefinition.
type crdState struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	version specVersion
	// accepted are the names under which it is or may be served.
	accepted apiextensionsv1.CustomResourceDefinitionNames
	names    apiextensionsv1.CustomResourceDefinitionCondition
	// served: an entry of its resource is there.
	served bool
	// err says why the newest spec is not in force.
	err error
	// cleaning is set while its objects are being removed, again when it was seen to be deleted meanwhile.
	cleaning, again bool
}

func (s *crdState) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: s.crd.Spec.Group, Resource: s.crd.Spec.Names.Plural}
}

// crdHandler follows the definitions.
type crdHandler struct{ *Loader }

// Replace implements rest.FollowHandler.
func (h crdHandler) Replace(objects []*document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := map[string]bool{}
	for _, obj := range namesFirst(objects) {
		seen[rest.MetaOf(obj).Name()] = true
		h.applyCRDLocked(obj)
		h.enqueueCRDStatus(rest.MetaOf(obj).Name()) // a restored storage may have lost what was written
	}
	for name, s := range h.crds {
		if !seen[name] {
			h.removeCRDLocked(name, s)
		}
	}
	h.seen.crds = true
	h.publishLocked()
}

// Change implements rest.FollowHandler.
func (h crdHandler) Change(e rest.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := false
	if e.Type == "DELETED" {
		name := rest.MetaOf(e.Object).Name()
		if s := h.crds[name]; s != nil {
			h.removeCRDLocked(name, s)
			changed = true
		}
	} else {
		changed = h.applyCRDLocked(e.Object)
	}
	if changed {
		h.publishLocked()
		h.checkTypesOfLocked(e.Object.Get("spec", "group").String())
	}
}

// applyCRDLocked brings a definition into the state; it reports whether anything that is served changed.
func (l *Loader) applyCRDLocked(obj *document.Document) (changed bool) {
	crd, err := decodeCRD(obj)
	if err != nil {
		l.cfg.Logger.Error("stored definition cannot be read", "name", rest.MetaOf(obj).Name(), "error", err)
		return false
	}
	s := l.crds[crd.Name]
	version := specVersionOf(obj)
	same := s != nil && s.version == version && (s.crd.DeletionTimestamp == nil) == (crd.DeletionTimestamp == nil)
	if s == nil {
		s = &crdState{accepted: crd.Status.AcceptedNames}
		l.crds[crd.Name] = s
	}
	s.crd, s.version = crd, version
	if !same {
		changed = l.serveCRDLocked(s)
	}
	if crd.DeletionTimestamp != nil {
		l.startCleanupLocked(s)
	}
	if same {
		return false
	}
	l.enqueueCRDStatus(crd.Name)
	if changed {
		l.offerNamesLocked(crd.Spec.Group)
	}
	return changed
}

// offerNamesLocked lets the definitions of a group that wait for a name have it, where it is free by now: those first that were
// created first, so that all servers decide alike.
func (l *Loader) offerNamesLocked(group string) {
	var waiting []*crdState
	for _, s := range l.crds {
		if s.crd.Spec.Group == group && s.names.Status != apiextensionsv1.ConditionTrue {
			waiting = append(waiting, s)
		}
	}
	slices.SortFunc(waiting, func(a, b *crdState) int {
		return cmp.Or(a.crd.CreationTimestamp.Compare(b.crd.CreationTimestamp.Time), cmp.Compare(a.crd.Name, b.crd.Name))
	})
	for again := true; again; { // who gets new names may give up old ones
		again = false
		for _, s := range waiting {
			if s.names.Status == apiextensionsv1.ConditionTrue {
				continue
			}
			before := s.accepted
			l.serveCRDLocked(s)
			if !apiequality.Semantic.DeepEqual(before, s.accepted) || s.names.Status == apiextensionsv1.ConditionTrue {
				l.enqueueCRDStatus(s.crd.Name)
				again = true
			}
		}
	}
}

// namesFirst returns definitions with those first that have their names, and then those that are served: a list, which a start
// begins with, is in the order of the names, and must not give one of them to another definition.
func namesFirst(objects []*document.Document) []*document.Document {
	rank := func(obj *document.Document) int {
		out := 2
		for _, c := range obj.Get("status", "conditions").Elements() {
			switch {
			case c.Get("status").String() != string(apiextensionsv1.ConditionTrue):
			case c.Get("type").String() == string(apiextensionsv1.NamesAccepted):
				return 0
			case c.Get("type").String() == string(apiextensionsv1.Established):
				out = 1
			}
		}
		return out
	}
	ranks := make(map[*document.Document]int, len(objects))
	for _, obj := range objects {
		ranks[obj] = rank(obj)
	}
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *document.Document) int { return cmp.Compare(ranks[a], ranks[b]) })
	return objects
}

// established reports whether a definition was served before.
func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// serveCRDLocked makes the resource of a definition.
func (l *Loader) serveCRDLocked(s *crdState) (changed bool) {
	gr := s.groupResource()
	crd := s.crd.DeepCopy()
	crd.Status.AcceptedNames = s.accepted
	s.accepted, s.names = acceptNames(crd, l.takenLocked(crd.Spec.Group, gr))
	if s.names.Status != apiextensionsv1.ConditionTrue && !s.served && !established(crd) {
		return false
	}
	definition, err := definitionOf(crd, s.accepted)
	if err == nil {
		old := l.entries[gr]
		if old != nil && !old.custom {
			err = fmt.Errorf("%s is a built-in resource", gr)
		} else {
			l.entries[gr] = &entry{definition: definition, custom: true, terminating: crd.DeletionTimestamp != nil}
			if err = l.rebuildLocked(gr); err != nil {
				if old == nil {
					delete(l.entries, gr)
				} else {
					l.entries[gr] = old
				}
			}
		}
	}
	s.err = err
	l.outcome(crdReference(crd), err, l.entries[gr] != nil)
	if err != nil {
		return false
	}
	s.served = true
	if strategy := l.strategies[gr]; strategy != nil {
		l.enqueueStrategyStatus(strategy.object.Name)
	}
	return true
}

// removeCRDLocked stops serving the resource of a definition that is gone.
func (l *Loader) removeCRDLocked(name string, s *crdState) {
	delete(l.crds, name)
	gr := s.groupResource()
	if s.served {
		delete(l.entries, gr)
		l.dropped = append(l.dropped, gr)
	}
	l.events.forget(s.crd.UID)
	l.offerNamesLocked(s.crd.Spec.Group)
}

// enqueueCRDStatus has the conditions of a definition written. Established is only said once the resource is in
// the published snapshot: the caller publishes before it lets go of the lock, which the write takes.
func (l *Loader) enqueueCRDStatus(name string) {
	l.status.enqueue("customresourcedefinition/"+name, func(ctx context.Context) error {
		storage, err := l.builtinStatus(crdResource)
		if err != nil {
			return err
		}
		_, _, err = storage.Update(ctx, name, rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
			crd, err := decodeCRD(old)
			if err != nil {
				return nil, err
			}
			if !l.crdStatus(crd) {
				return old, nil
			}
			encoded, err := json.Marshal(crd.Status)
			if err != nil {
				return nil, err
			}
			return old.Edit().Set(json.RawMessage(encoded), "status").Document()
		}), nil, nil, false, &metav1.UpdateOptions{})
		return err
	})
}

// crdStatus brings the status of crd up to date and reports whether it changed.
func (l *Loader) crdStatus(crd *apiextensionsv1.CustomResourceDefinition) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.crds[crd.Name]
	if s == nil || s.crd.UID != crd.UID {
		return false
	}
	now := metav1.NewTime(l.cfg.Clock.Now())
	accepted, _ := json.Marshal(s.accepted)                    //nolint:errchkjson // strings
	before, _ := json.Marshal(crd.Status.AcceptedNames)        //nolint:errchkjson // strings
	if changed = string(accepted) != string(before); changed { // compared as JSON: nil and empty lists are the same
		crd.Status.AcceptedNames = s.accepted
	}
	conditions := &crd.Status.Conditions
	changed = setCRDCondition(conditions, s.names, now) || changed
	established := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established}
	switch {
	case s.served:
		established.Status, established.Reason = apiextensionsv1.ConditionTrue, "InitialNamesAccepted"
		established.Message = "the initial names have been accepted"
	case s.err != nil:
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "NotServed", s.err.Error()
	default:
		established.Status, established.Reason, established.Message = apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted"
	}
	changed = setCRDCondition(conditions, established, now) || changed
	if crd.DeletionTimestamp != nil {
		changed = setCRDCondition(conditions, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionInProgress",
			Message: "CustomResource deletion is in progress"}, now) || changed
	}
	return changed
}

// startCleanupLocked removes the objects of a definition that is being deleted, then its finalizer.
func (l *Loader) startCleanupLocked(s *crdState) {
	if !slices.Contains(s.crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return
	}
	if s.cleaning {
		s.again = true
		return
	}
	s.cleaning = true
	c := &cleanup{Loader: l, name: s.crd.Name, uid: s.crd.UID}
	switch gr := s.groupResource(); {
	case s.served:
		c.objects = gr
	case s.err != nil && l.entries[gr] == nil:
		bare, err := bareDefinitionOf(s.crd, s.accepted)
		if err != nil {
			l.cfg.Logger.Warn("objects of a deleted definition remain", "name", c.name, "error", err)
		}
		c.bare = bare
	}
	l.background.start(func(ctx context.Context) {
		c.run(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		again := s.again && l.crds[c.name] == s && ctx.Err() == nil
		if s.cleaning, s.again = false, false; again && s.crd.DeletionTimestamp != nil {
			l.startCleanupLocked(s)
		}
	})
}
