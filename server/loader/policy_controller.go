package loader

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// policyHandler follows one of the resources that policies are made of.
type policyHandler struct {
	*Loader
	resource schema.GroupResource
}

// Replace implements rest.FollowHandler.
func (h policyHandler) Replace(objects []*document.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgetUndecodedLocked(h.resource)
	seen := map[string]bool{}
	for _, obj := range objects {
		seen[rest.MetaOf(obj).Name()] = true
		h.applyLocked(obj)
		switch h.resource { // a restored storage may have lost what was written
		case weirPolicies:
			h.enqueuePolicyStatus(rest.MetaOf(obj).Name())
		case weirBindings:
			h.enqueueBindingStatus(rest.MetaOf(obj).Name())
		}
	}
	for _, name := range h.policies.names(h.resource) {
		if !seen[name] {
			h.removeLocked(name)
		}
	}
	h.seen.policies[h.resource] = true
	h.publishLocked()
}

// Change implements rest.FollowHandler.
func (h policyHandler) Change(e rest.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var changed bool
	if e.Type == "DELETED" {
		h.noteDecodedLocked(h.resource, rest.MetaOf(e.Object).Name(), nil)
		changed = h.removeLocked(rest.MetaOf(e.Object).Name())
	} else {
		changed = h.applyLocked(e.Object)
	}
	if changed {
		h.publishLocked()
	}
}

func (h policyHandler) applyLocked(obj *document.Document) (changed bool) {
	var err error
	switch h.resource {
	case weirPolicies:
		changed, err = h.applyWeirPolicyLocked(obj)
	case weirBindings:
		changed, err = h.applyWeirBindingLocked(obj)
	default:
		changed, err = h.policies.apply(h.resource, obj)
	}
	h.noteDecodedLocked(h.resource, rest.MetaOf(obj).Name(), err)
	switch h.resource {
	case validatingPolicies, mutatingPolicies:
		if observed, _ := obj.Get("status", "observedGeneration").Int(); changed || observed != rest.MetaOf(obj).Generation() {
			h.enqueueTypeCheck(h.resource, rest.MetaOf(obj).Name())
		}
	case weirBindings:
		if changed {
			h.enqueueBindingStatus(rest.MetaOf(obj).Name())
		}
	}
	if changed || err != nil {
		meta := rest.MetaOf(obj)
		h.outcome(corev1.ObjectReference{APIVersion: obj.Get("apiVersion").String(), Kind: obj.Get("kind").String(),
			Name: meta.Name(), UID: meta.UID()}, err, h.policies.judges(h.resource, meta.Name()))
	}
	return changed
}

func (h policyHandler) removeLocked(name string) (changed bool) {
	if holdsPolicies(h.resource) {
		h.cfg.PolicyMetrics.Forget(policyKind(h.resource), name)
	}
	if h.resource == weirPolicies {
		h.removeWeirPolicyLocked(policyKey{policyKind(h.resource), name})
		return true
	}
	return h.policies.remove(h.resource, name)
}
