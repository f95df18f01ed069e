package loader

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// What a question may hold. Each policy takes time to compile.
const (
	maxImpactObjects  = 1000
	maxImpactPolicies = 200
)

// question is a PolicyImpactSpec, read.
type question struct {
	policies  []*policy.Policy
	params    []*document.Document
	operation admission.Operation
	namespace string
	most      int64
	timeout   time.Duration
	after     policy.Cursor
	notes     []string
	objects   []*document.Document
	// written: what is given is being written, which whoever asks may do.
	written bool
	// mayAsk: modules look up what they are granted, and expressions ask the authorizer.
	mayAsk bool
	// uses are the modules that the policies call; a reference is held to each.
	uses []*extension.SharedModule
}

func (q *question) release() { releaseAll(q.uses) }

// newQuestion reads a question. The error is an apierrors.APIStatus.
func newQuestion(spec *v1alpha1.PolicyImpactSpec) (*question, error) {
	q := &question{operation: admission.Operation(spec.Operation), namespace: spec.Namespace, most: spec.MaxObjects, timeout: time.Duration(spec.TimeoutSeconds) * time.Second}
	path := field.NewPath("spec")
	var errs field.ErrorList
	if ops := []string{"CREATE", "UPDATE", "DELETE"}; spec.Operation != "" && !slices.Contains(ops, spec.Operation) {
		errs = append(errs, field.NotSupported(path.Child("operation"), spec.Operation, ops))
	}
	if n := spec.Limit; n != nil && (*n < 0 || *n > maxImpactLimit) {
		errs = append(errs, field.Invalid(path.Child("limit"), *n, fmt.Sprintf("must be from 0 to %d", maxImpactLimit)))
	}
	if spec.MaxObjects < 0 {
		errs = append(errs, field.Invalid(path.Child("maxObjects"), spec.MaxObjects, "must not be negative"))
	}
	if spec.TimeoutSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), spec.TimeoutSeconds, "must not be negative"))
	}
	if spec.Continue != "" {
		raw, err := base64.RawURLEncoding.DecodeString(spec.Continue)
		if err != nil || json.Unmarshal(raw, &q.after) != nil || q.after.Resource == "" {
			errs = append(errs, field.Invalid(path.Child("continue"), spec.Continue, "is not of an earlier answer"))
		}
	}
	path = path.Child("objects")
	switch n := len(spec.Objects); {
	case n == 0:
		errs = append(errs, field.Required(path, "at least one policy or binding"))
	case n > maxImpactObjects:
		errs = append(errs, field.TooMany(path, n, maxImpactObjects))
	}
	if len(errs) > 0 {
		return nil, invalidQuestion(errs)
	}
	policies := 0
	for i := range spec.Objects {
		obj, err := document.Parse(spec.Objects[i].Raw)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), field.OmitValueType{}, err.Error()))
			continue
		}
		q.objects = append(q.objects, obj)
		if gr, ok := PolicyResourceOf(obj.Get("apiVersion").String(), obj.Get("kind").String()); ok && holdsPolicies(gr) {
			policies++
		}
	}
	if policies > maxImpactPolicies {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("must have at most %d policies, and has %d", maxImpactPolicies, policies)))
	}
	if len(errs) > 0 {
		return nil, invalidQuestion(errs)
	}
	return q, nil
}

func invalidQuestion(errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: ImpactResource.Group, Kind: "PolicyImpact"}, "", errs)
}

// compile makes the policies of a question of the objects that are given and those in force, without the lock of the
// Loader: what compiles takes its time. The error is an apierrors.APIStatus where it is of whoever asks.
func (x *Impact) compile(ctx context.Context, q *question) error {
	given, errs, err := x.given(ctx, q)
	if err != nil {
		return err
	}
	path := field.NewPath("spec", "objects")
	switch {
	case len(errs) > 0:
		return invalidQuestion(errs)
	case len(given) == 0:
		return invalidQuestion(field.ErrorList{field.Invalid(path, field.OmitValueType{}, "no policy and no binding is among them")})
	}
	if q.mayAsk = q.written || x.mayWrite(ctx, given); !q.mayAsk {
		q.notes = append(q.notes, "who may not create such policies has modules look nothing up, and expressions ask no authorizer")
	}
	l := x.loader
	guests := questionGuests{loader: l, question: q, own: map[ownGuest]configured{}}
	c := NewPolicyCompiler(PolicyCompilerConfig{Engines: l.policies.engines, Rego: l.cfg.Rego,
		Guest: func(name string, settings json.RawMessage) (*extension.SharedModule, string, error) {
			return guests.guest(ctx, name, settings)
		}})
	for _, obj := range given {
		err := c.Add(obj)
		if ctx.Err() != nil {
			return apierrors.NewTimeoutError("the time was over before all policies were compiled", 1)
		}
		if err != nil {
			errs = append(errs, field.Invalid(path, rest.MetaOf(obj).Name(), err.Error()))
		}
	}
	if len(errs) > 0 {
		return invalidQuestion(errs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x.overlayLocked(q, c.set)
	return nil
}

// given returns the policies and bindings of a question with their defaults. The rest are its params.
func (x *Impact) given(ctx context.Context, q *question) (given []*document.Document, errs field.ErrorList, err error) {
	path := field.NewPath("spec", "objects")
	for i, obj := range q.objects {
		gr, ok := PolicyResourceOf(obj.Get("apiVersion").String(), obj.Get("kind").String())
		if !ok {
			if err := CheckPolicyKind(obj.Get("apiVersion").String(), obj.Get("kind").String()); err != nil {
				errs = append(errs, field.Invalid(path.Index(i).Child("kind"), obj.Get("kind").String(), err.Error()))
			}
			q.params = append(q.params, obj)
			continue
		}
		if obj, err = x.complete(ctx, gr, obj); err != nil {
			return nil, nil, err
		}
		found, err := x.check(ctx, gr, obj, q)
		if err != nil {
			return nil, nil, err
		}
		if ctx.Err() != nil {
			return nil, nil, apierrors.NewTimeoutError("the time was over before all policies were checked", 1)
		}
		for _, e := range found {
			e.Field = path.Index(i).String() + "." + e.Field
			errs = append(errs, e)
		}
		given = append(given, obj)
	}
	return given, errs, nil
}

// mayWrite reports whether whoever asks may create policies of the kinds that are given, or that given bindings are of.
func (x *Impact) mayWrite(ctx context.Context, given []*document.Document) bool {
	for _, obj := range given {
		gr, ok := PolicyResourceOf(obj.Get("apiVersion").String(), obj.Get("kind").String())
		if ok && !x.mayCreate(ctx, gr) {
			return false
		}
	}
	return true
}

// mayCreate reports whether whoever asks may create the policies that a resource holds, or holds bindings of.
func (x *Impact) mayCreate(ctx context.Context, gr schema.GroupResource) bool {
	if !holdsPolicies(gr) {
		gr = policiesOf(gr)
	}
	return x.may(ctx, &authorizer.AttributesRecord{Verb: "create", APIGroup: gr.Group, APIVersion: "*", Resource: gr.Resource})
}

// complete fills in what a client leaves out.
func (x *Impact) complete(ctx context.Context, gr schema.GroupResource, obj *document.Document) (*document.Document, error) {
	d, ok := x.loader.builtin(gr).(interface {
		Default(ctx context.Context, obj *document.Document) (*document.Document, error)
	})
	if !ok {
		return obj, nil
	}
	return d.Default(ctx, obj)
}

// check refuses what a write of an object would refuse.
func (x *Impact) check(ctx context.Context, gr schema.GroupResource, obj *document.Document, q *question) (field.ErrorList, error) {
	if rest.MetaOf(obj).Name() == "" {
		return field.ErrorList{field.Required(field.NewPath("metadata", "name"), "")}, nil
	}
	// A module may be given settings of which its author did not think, and looks up what it is granted.
	if obj.Get("spec", "wasm").Exists() && !q.written && !x.mayCreate(ctx, gr) {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "wasm"), fmt.Sprintf("to ask what a module would do takes permission to create %s", gr))}, nil
	}
	errs, err := PolicyGuard(x.loader.policies.engines, x.loader.cfg.Rego, gr).Validate(ctx, obj)
	if err != nil || len(errs) > 0 {
		return errs, err
	}
	access := policyAccess{resource: gr, given: q.objects, cfg: PolicyAccessConfig{Authorizer: x.cfg.Authorizer,
		Stored: func(group, resource string) any {
			return x.loader.builtin(schema.GroupResource{Group: group, Resource: resource})
		}}}
	return access.Validate(ctx, obj)
}

// nothingCounted ends the note on a binding without its policy, or a policy without the binding that has its params.
const nothingCounted = "nothing was counted for it"

// overlayLocked puts what is given before what is in force: the policies that are given with all their bindings, and those
// in force with the bindings that are given.
func (x *Impact) overlayLocked(q *question, given *policySet) {
	stored := x.loader.policies
	bound := map[policyKey][]*policy.Binding{}
	add := func(key policyKey, b *bindingState) {
		own := *b.binding
		own.Tally = nil // nothing is counted
		to := policyKey{key.kind, b.policy}
		bound[to] = append(bound[to], &own)
	}
	for key, b := range given.bindings {
		add(key, b)
	}
	for key, b := range stored.bindings {
		if given.bindings[key] == nil && given.policies[policyKey{key.kind, b.policy}] != nil {
			add(key, b)
		}
	}
	states := map[policyKey]*policyState{}
	for key := range given.policies {
		states[key] = given.policies[key]
	}
	for _, b := range sortedBindings(given) {
		key := policyKey{b.kind, given.bindings[b].policy}
		switch {
		case states[key] != nil:
		case stored.policies[key] != nil:
			states[key] = stored.policies[key]
		default:
			q.notes = append(q.notes, fmt.Sprintf("binding %q names the %s %q, which there is not: "+nothingCounted, b.name, key.kind, key.name))
		}
	}
	for key, state := range states {
		bindings := bound[key]
		for _, part := range []*policy.Policy{state.inForce, state.mutating} {
			if part == nil {
				continue
			}
			p := *part
			switch {
			case len(bindings) > 0:
			case p.ParamKind != nil:
				q.notes = append(q.notes, fmt.Sprintf("no binding names the %s %q, so that its params are not known: "+nothingCounted, key.kind, key.name))
				continue
			default:
				q.notes = append(q.notes, fmt.Sprintf("no binding names the %s %q: it was counted as if it were bound to all that it concerns", key.kind, key.name))
				bindings = []*policy.Binding{{Deny: true}}
			}
			slices.SortFunc(bindings, func(a, b *policy.Binding) int { return strings.Compare(a.Name, b.Name) })
			p.Bindings = bindings
			q.policies = append(q.policies, &p)
		}
		for _, m := range state.uses {
			m.Acquire() // held by its loaded module, so that this cannot fail
			q.uses = append(q.uses, m)
		}
	}
	slices.Sort(q.notes)
	q.notes = slices.Compact(q.notes)
}

func sortedBindings(s *policySet) []policyKey {
	keys := make([]policyKey, 0, len(s.bindings))
	for key := range s.bindings {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b policyKey) int { return strings.Compare(a.kind+"/"+a.name, b.kind+"/"+b.name) })
	return keys
}
