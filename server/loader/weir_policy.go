package loader

import (
	"encoding/json"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
)

// RegoCompiler compiles the rules of a Policy in Rego.
type RegoCompiler interface {
	// CompileRego returns the judge of rules, and the digest of their bundle. The error is policies.Issues when the rules
	// are at fault.
	CompileRego(rules *v1alpha1.RegoPolicy) (judge policies.Judge, digest string, err error)
}

// applyWeirPolicyLocked brings a Policy into the state.
func (l *Loader) applyWeirPolicyLocked(obj *document.Document) (changed bool, err error) {
	object, err := decodePolicy(obj)
	if err != nil {
		return false, undecoded(err)
	}
	key := policyKey{"Policy", object.Name}
	s := l.policies.policies[key]
	if s != nil && s.uid != object.UID {
		l.removeWeirPolicyLocked(key)
		s = nil
	}
	switch {
	case s == nil:
		s = &policyState{}
		l.policies.policies[key] = s
	case s.specVersion == specVersionOf(obj):
		s.weir = object
		return false, nil
	}
	s.weir, s.specVersion = object, specVersionOf(obj)
	err = l.compileWeirPolicyLocked(s)
	l.pruneSettingsLocked()
	return true, err
}

// compileWeirPolicyLocked makes the newest generation; when that fails the last known good stays.
func (l *Loader) compileWeirPolicyLocked(s *policyState) error {
	made, err := l.makeWeirPolicyLocked(s.weir)
	if err == nil {
		for _, m := range made.uses {
			m.Acquire() // held by its loaded module, so that this cannot fail
		}
		old := s.uses
		s.inForce, s.mutating, s.uses, s.judges, s.digest = made.inForce, made.mutating, made.uses, s.generation, made.digest
		releaseAll(old)
	} else if s.judges == 0 {
		s.inForce, s.mutating = made.inForce, nil
	}
	if s.err = err; err != nil {
		s.erred = l.cfg.Clock.Now()
	}
	l.enqueuePolicyStatus(s.weir.Name)
	l.enqueueBindingsOfLocked(s.weir.Name)
	if errors.Is(err, errLoading) {
		return nil // it is told when it is known
	}
	return err
}

// makeWeirPolicyLocked makes a policy of what the Loader has.
func (l *Loader) makeWeirPolicyLocked(from *v1alpha1.Policy) (policyState, error) {
	return makeWeirPolicy(from, policyParts{engines: l.policies.engines, rego: l.cfg.Rego, guest: l.guestAndDigestLocked})
}

// guestAndDigestLocked returns a module, configured with settings, and the digest of what is in force of it.
func (l *Loader) guestAndDigestLocked(name string, settings json.RawMessage) (*extension.SharedModule, string, error) {
	module, err := l.guestLocked(name, settings)
	digest := ""
	if m := l.modules[name]; m != nil && m.inForce != nil {
		digest = m.inForce.digest
	}
	return module, digest, err
}

// policyParts are what a Policy is made of.
type policyParts struct {
	engines policies.Engines
	rego    RegoCompiler
	// guest returns a module, configured with settings, and its digest.
	guest func(name string, settings json.RawMessage) (module *extension.SharedModule, digest string, err error)
}

// makeWeirPolicy makes a policy. On an error inForce of what it returns cannot judge: its failure policy decides.
func makeWeirPolicy(from *v1alpha1.Policy, parts policyParts) (made policyState, err error) {
	spec := &from.Spec
	base, err := policy.FromSpec("Policy", from.Name, policy.Spec{MatchConstraints: spec.MatchConstraints, FailurePolicy: spec.FailurePolicy, ParamKind: spec.ParamKind})
	base.Reinvoke = spec.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
	fail := func(err error) (policyState, error) {
		base.Err = err
		return policyState{inForce: base}, err
	}
	if err != nil {
		return fail(err)
	}
	conditions, err := policies.CompileConditions(parts.engines.Conditions, "spec.matchConditions", policy.ConditionTexts(spec.MatchConditions))
	if err != nil {
		return fail(err)
	}
	switch {
	case spec.Rego != nil:
		if parts.rego == nil {
			return fail(errors.New("this server has no engine for Rego"))
		}
		judge, digest, err := parts.rego.CompileRego(spec.Rego)
		if err != nil {
			return fail(err)
		}
		base.Judge = policies.When(conditions, judge)
		return policyState{inForce: base, digest: digest}, nil
	case spec.Wasm != nil:
		module, digest, err := parts.guest(spec.Wasm.Module, spec.Wasm.Settings.Raw)
		if err != nil {
			return fail(err)
		}
		made = policyState{uses: []*extension.SharedModule{module}, digest: digest}
		if module.Handles(abi.OpAdmitMutate) {
			mutating := *base
			mutating.Judge = extension.NewGuestMutator(module, conditions)
			made.mutating = &mutating
		}
		if module.Handles(abi.OpAdmitValidate) {
			base.Judge = policies.When(conditions, extension.NewGuestJudge(module))
			made.inForce = base
		}
		if made.inForce == nil && made.mutating == nil {
			return fail(fmt.Errorf("module[%s] has neither an admitValidate nor an admitMutate hook", spec.Wasm.Module))
		}
		return made, nil
	}
	return fail(errors.New("spec has neither wasm nor rego"))
}

// removeWeirPolicyLocked forgets a Policy.
func (l *Loader) removeWeirPolicyLocked(key policyKey) {
	s := l.policies.policies[key]
	if s == nil {
		return
	}
	delete(l.policies.policies, key)
	l.enqueueBindingsOfLocked(key.name)
	releaseAll(s.uses)
	l.events.forget(s.uid)
	l.pruneSettingsLocked()
}

func releaseAll(modules []*extension.SharedModule) {
	for _, m := range modules {
		m.Release()
	}
}

// recompilePoliciesLocked makes every Policy anew that calls a module.
func (l *Loader) recompilePoliciesLocked(module string) {
	for _, s := range l.policies.policies {
		if s.weir != nil && s.weir.Spec.Wasm != nil && s.weir.Spec.Wasm.Module == module {
			if err := l.compileWeirPolicyLocked(s); err != nil {
				l.outcome(policyReference(s.weir), err, s.judges > 0)
			}
		}
	}
}

func policyReference(p *v1alpha1.Policy) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: apiVersion, Kind: "Policy", Name: p.Name, UID: p.UID}
}

func decodePolicy(obj *document.Document) (*v1alpha1.Policy, error) {
	p := &v1alpha1.Policy{}
	if err := json.Unmarshal(obj.Bytes(), p); err != nil {
		return nil, unreadable("Policy", err)
	}
	return p, nil
}

// applyWeirBindingLocked brings a PolicyBinding into the state.
func (l *Loader) applyWeirBindingLocked(obj *document.Document) (changed bool, err error) {
	from := &v1alpha1.PolicyBinding{}
	if err := json.Unmarshal(obj.Bytes(), from); err != nil {
		return false, undecoded(unreadable("PolicyBinding", err))
	}
	b := weirBinding(from)
	counts, since := l.countedBefore(from)
	b.Tally = policy.NewTally(counts)
	next := bindingState{specVersion: specVersionOf(obj), policy: from.Spec.PolicyName, binding: b, since: since, told: counts.Total()}
	return l.policies.applyBinding(policyKey{"Policy", from.Name}, next), nil
}

func weirBinding(from *v1alpha1.PolicyBinding) *policy.Binding {
	b := policy.FromBinding(from.Name, policy.BindingSpec{Match: from.Spec.MatchResources, Params: from.Spec.ParamRef, Actions: from.Spec.ValidationActions})
	b.Shadow, b.Percent = from.Spec.Mode == v1alpha1.ModeShadow, from.Spec.Percent
	return b
}
