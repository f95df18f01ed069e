package loader

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
)

// admissionGroup is the group of the policies that are expressions.
const admissionGroup = "admissionregistration.k8s.io"

// The resources that policies are made of.
var (
	validatingPolicies = schema.GroupResource{Group: admissionGroup, Resource: "validatingadmissionpolicies"}
	validatingBindings = schema.GroupResource{Group: admissionGroup, Resource: "validatingadmissionpolicybindings"}
	mutatingPolicies   = schema.GroupResource{Group: admissionGroup, Resource: "mutatingadmissionpolicies"}
	mutatingBindings   = schema.GroupResource{Group: admissionGroup, Resource: "mutatingadmissionpolicybindings"}
	weirPolicies       = schema.GroupResource{Group: "weir.dev", Resource: "policies"}
	weirBindings       = schema.GroupResource{Group: "weir.dev", Resource: "policybindings"}
)

// PolicyResources are all of them; of each the bindings are those of the policies before.
func PolicyResources() []schema.GroupResource {
	return []schema.GroupResource{validatingPolicies, validatingBindings, mutatingPolicies, mutatingBindings, weirPolicies, weirBindings}
}

// policyKind is the kind of policy that a resource holds, or holds bindings of.
func policyKind(gr schema.GroupResource) string {
	switch gr {
	case mutatingPolicies, mutatingBindings:
		return "MutatingAdmissionPolicy"
	case weirPolicies, weirBindings:
		return "Policy"
	}
	return "ValidatingAdmissionPolicy"
}

// holdsPolicies reports whether a resource holds policies, and not bindings.
func holdsPolicies(gr schema.GroupResource) bool {
	return gr == validatingPolicies || gr == mutatingPolicies || gr == weirPolicies
}

// policiesOf is the resource of the policies that bindings of another are of.
func policiesOf(bindings schema.GroupResource) schema.GroupResource {
	switch bindings {
	case mutatingBindings:
		return mutatingPolicies
	case weirBindings:
		return weirPolicies
	}
	return validatingPolicies
}

// policyResourceOfKind is the resource that holds the policies of a kind.
func policyResourceOfKind(kind string) schema.GroupResource {
	switch kind {
	case "MutatingAdmissionPolicy":
		return mutatingPolicies
	case "Policy":
		return weirPolicies
	}
	return validatingPolicies
}

// policySet is what the Loader knows of policies and their bindings. Loader.mu guards it.
type policySet struct {
	engines  policies.Engines
	now      func() time.Time // nil: nothing is counted
	policies map[policyKey]*policyState
	bindings map[policyKey]*bindingState
}

// policyKey names a policy, or a binding, of a kind of policy.
type policyKey struct{ kind, name string }

// policyState is one policy.
type policyState struct {
	specVersion
	// inForce is the last one that compiled, or, when none ever did, one that cannot judge: its failure policy decides.
	inForce *policy.Policy
	// err says why the newest generation is not in force.
	err error
	// weir is set for a Policy, and what follows with it.
	weir *v1alpha1.Policy
	// mutating is the part of inForce that changes objects, nil when there is none.
	mutating *policy.Policy
	// uses are the modules that it calls; a reference is held to each.
	uses []*extension.SharedModule
	// judges is the generation that inForce was made of, 0 for none. digest is that of its module or bundle.
	judges int64
	digest string
	// groups are those whose kinds the types of its expressions depend on.
	groups []string
	// erred is when err was found.
	erred time.Time
	// tally counts what a policy of admissionregistration.k8s.io did since a time, and told how much of it was told.
	// Of a Policy its bindings count.
	tally *policy.Tally
	since time.Time
	told  int64
}

// bindingState is one binding.
type bindingState struct {
	specVersion
	policy  string
	binding *policy.Binding
	// since it counts, and how much it had counted when that was told.
	since time.Time
	told  int64
}

func newPolicySet(engines policies.Engines) *policySet {
	return &policySet{engines: engines, policies: map[policyKey]*policyState{}, bindings: map[policyKey]*bindingState{}}
}

// apply brings an object of one of the resources into the set. It reports whether anything changed.
func (s *policySet) apply(gr schema.GroupResource, obj *document.Document) (changed bool, err error) {
	kind := policyKind(gr)
	switch gr {
	case validatingPolicies:
		from := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		if err := json.Unmarshal(obj.Bytes(), from); err != nil {
			return false, undecoded(fmt.Errorf("stored policy cannot be read: %w", err))
		}
		changed, err := s.applyPolicy(policyKey{kind, from.Name}, specVersionOf(obj), func() (*policy.Policy, error) { return policy.FromValidating(s.engines, from) })
		s.policies[policyKey{kind, from.Name}].groups = groupsOf(from.Spec.MatchConstraints, from.Spec.ParamKind)
		return changed, err
	case mutatingPolicies:
		from := &admissionregistrationv1.MutatingAdmissionPolicy{}
		if err := json.Unmarshal(obj.Bytes(), from); err != nil {
			return false, undecoded(fmt.Errorf("stored policy cannot be read: %w", err))
		}
		changed, err := s.applyPolicy(policyKey{kind, from.Name}, specVersionOf(obj), func() (*policy.Policy, error) { return policy.FromMutating(s.engines, from) })
		s.policies[policyKey{kind, from.Name}].groups = groupsOf(from.Spec.MatchConstraints, from.Spec.ParamKind)
		return changed, err
	case validatingBindings:
		from := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		if err := json.Unmarshal(obj.Bytes(), from); err != nil {
			return false, undecoded(fmt.Errorf("stored binding cannot be read: %w", err))
		}
		return s.applyBinding(policyKey{kind, from.Name}, bindingState{specVersion: specVersionOf(obj), policy: from.Spec.PolicyName, binding: policy.FromValidatingBinding(from)}), nil
	case mutatingBindings:
		from := &admissionregistrationv1.MutatingAdmissionPolicyBinding{}
		if err := json.Unmarshal(obj.Bytes(), from); err != nil {
			return false, undecoded(fmt.Errorf("stored binding cannot be read: %w", err))
		}
		return s.applyBinding(policyKey{kind, from.Name}, bindingState{specVersion: specVersionOf(obj), policy: from.Spec.PolicyName, binding: policy.FromMutatingBinding(from)}), nil
	}
	return false, fmt.Errorf("%s holds no policies", gr)
}

func (s *policySet) applyPolicy(key policyKey, version specVersion, compile func() (*policy.Policy, error)) (changed bool, err error) {
	state := s.policies[key]
	if state != nil && state.specVersion == version {
		return false, nil
	}
	if state == nil || state.uid != version.uid {
		state = &policyState{}
		s.policies[key] = state
	}
	state.specVersion = version
	if s.now != nil {
		state.tally, state.since, state.told = policy.NewTally(policy.Counts{}), s.now(), 0
	}
	next, err := compile()
	state.err = err
	// What was in force and works is not replaced by what does not.
	if err == nil || state.inForce == nil || state.inForce.Err != nil {
		state.inForce = next
	}
	return true, err
}

func (s *policySet) applyBinding(key policyKey, next bindingState) (changed bool) {
	state := s.bindings[key]
	if state != nil && state.specVersion == next.specVersion {
		return false
	}
	s.bindings[key] = &next
	return true
}

// remove drops an object. It reports whether it was there.
func (s *policySet) remove(gr schema.GroupResource, name string) (changed bool) {
	key := policyKey{policyKind(gr), name}
	if holdsPolicies(gr) {
		_, changed = s.policies[key]
		delete(s.policies, key)
		return changed
	}
	_, changed = s.bindings[key]
	delete(s.bindings, key)
	return changed
}

// judges reports whether some generation of a policy of a resource judges.
func (s *policySet) judges(gr schema.GroupResource, name string) bool {
	state := s.policies[policyKey{policyKind(gr), name}]
	return holdsPolicies(gr) && state != nil && state.inForce != nil && state.inForce.Err == nil
}

// names returns those of all objects of a resource.
func (s *policySet) names(gr schema.GroupResource) []string {
	var names []string
	kind := policyKind(gr)
	if holdsPolicies(gr) {
		for key := range s.policies {
			if key.kind == kind {
				names = append(names, key.name)
			}
		}
		return names
	}
	for key := range s.bindings {
		if key.kind == kind {
			names = append(names, key.name)
		}
	}
	return names
}

// inForce returns the policies in force with their bindings.
func (s *policySet) inForce() []*policy.Policy {
	bound := map[policyKey][]*policy.Binding{}
	for key, b := range s.bindings {
		to := policyKey{key.kind, b.policy}
		bound[to] = append(bound[to], b.binding)
	}
	list := make([]*policy.Policy, 0, len(s.policies))
	for key, state := range s.policies {
		bindings := bound[key]
		slices.SortFunc(bindings, func(a, b *policy.Binding) int { return cmp.Compare(a.Name, b.Name) })
		for _, part := range []*policy.Policy{state.inForce, state.mutating} {
			if part != nil {
				p := *part
				p.Bindings, p.Tally = bindings, state.tally
				list = append(list, &p)
			}
		}
	}
	return list
}
