package loader

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// ImpactResource is the resource of PolicyImpacts.
var ImpactResource = schema.GroupResource{Group: "weir.dev", Resource: "policyimpacts"} // never written to

const (
	defaultImpactLimit = 10
	maxImpactLimit     = 1000
	maxImpactObjects   = 1000
	// impactMargin is left of a request's time for its answer.
	impactMargin = time.Second
)

// ImpactConfig says what an Impact asks.
type ImpactConfig struct {
	Authorizer authorizer.Authorizer
	// Expressions returns what the variable authorizer of an expression is for a request; nil: there is none.
	Expressions func(a *admission.Attributes) any
}

// Impact answers PolicyImpacts, one at a time: it is there for operators, and the server for all.
type Impact struct {
	loader *Loader
	cfg    ImpactConfig
	// turn is taken by the one that is counting.
	turn chan struct{}
}

var _ rest.Creater = (*Impact)(nil)

// NewImpact returns an Impact of what a Loader has in force.
func NewImpact(l *Loader, cfg ImpactConfig) (*Impact, error) {
	if cfg.Authorizer == nil {
		return nil, errors.New("policy impact: ImpactConfig needs Authorizer")
	}
	return &Impact{loader: l, cfg: cfg, turn: make(chan struct{}, 1)}, nil
}

// Create implements rest.Creater: it answers a PolicyImpact.
func (x *Impact) Create(ctx context.Context, obj *document.Document, _ rest.ValidateObjectFunc, _ *metav1.CreateOptions) (*document.Document, error) {
	in := &v1alpha1.PolicyImpact{}
	if err := json.Unmarshal(obj.Bytes(), in); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("PolicyImpact: %v", err))
	}
	limit := defaultImpactLimit
	if in.Spec.Limit != nil {
		limit = int(*in.Spec.Limit)
	}
	var found []v1alpha1.PolicyImpactFinding
	status, err := x.Answer(ctx, &in.Spec, func(f *v1alpha1.PolicyImpactFinding) error {
		if len(found) < limit {
			found = append(found, *f)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	status.Findings = found
	return obj.Edit().Set(status, "status").Document()
}

// Answer answers a question. tell gets all findings; its error ends the count. The error is an apierrors.APIStatus.
func (x *Impact) Answer(ctx context.Context, spec *v1alpha1.PolicyImpactSpec, tell func(*v1alpha1.PolicyImpactFinding) error) (*v1alpha1.PolicyImpactStatus, error) {
	q, err := x.question(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer q.release()
	return x.count(ctx, q, tell)
}

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
	// uses are the modules that the policies call; a reference is held to each.
	uses []*extension.SharedModule
}

func (q *question) release() { releaseAll(q.uses) }

func (x *Impact) question(ctx context.Context, spec *v1alpha1.PolicyImpactSpec) (*question, error) {
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
	var objects []*document.Document
	if len(errs) == 0 {
		for i := range spec.Objects {
			obj, err := document.Parse(spec.Objects[i].Raw)
			if err != nil {
				errs = append(errs, field.Invalid(path.Index(i), field.OmitValueType{}, err.Error()))
				continue
			}
			objects = append(objects, obj)
		}
	}
	if len(errs) == 0 {
		var err error
		if errs, err = x.compile(ctx, q, objects, path); err != nil {
			q.release()
			return nil, err
		}
	}
	if len(errs) > 0 {
		q.release()
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: ImpactResource.Group, Kind: "PolicyImpact"}, "", errs)
	}
	return q, nil
}

// compile makes the policies of a question of the objects that are given and those in force.
func (x *Impact) compile(ctx context.Context, q *question, objects []*document.Document, path *field.Path) (errs field.ErrorList, err error) {
	l := x.loader
	var given []*document.Document
	for i, obj := range objects {
		gr, ok := PolicyResourceOf(obj.Get("apiVersion").String(), obj.Get("kind").String())
		if !ok {
			q.params = append(q.params, obj)
			continue
		}
		if obj, err = x.complete(ctx, gr, obj); err != nil {
			return nil, err
		}
		found, err := x.check(ctx, gr, obj, objects)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			e.Field = path.Index(i).String() + "." + e.Field
			errs = append(errs, e)
		}
		given = append(given, obj)
	}
	switch {
	case len(errs) > 0:
		return errs, nil
	case len(given) == 0:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "no policy and no binding is among them")}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := NewPolicyCompiler(PolicyCompilerConfig{Engines: l.policies.engines, Rego: l.cfg.Rego, Guest: l.guestAndDigestLocked})
	for _, obj := range given {
		if err := c.Add(obj); err != nil {
			errs = append(errs, field.Invalid(path, rest.MetaOf(obj).Name(), err.Error()))
		}
	}
	if len(errs) > 0 {
		return errs, nil
	}
	x.overlayLocked(q, c.set)
	return nil, nil
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
func (x *Impact) check(ctx context.Context, gr schema.GroupResource, obj *document.Document, others []*document.Document) (field.ErrorList, error) {
	if rest.MetaOf(obj).Name() == "" {
		return field.ErrorList{field.Required(field.NewPath("metadata", "name"), "")}, nil
	}
	errs, err := PolicyGuard(x.loader.policies.engines, x.loader.cfg.Rego, gr).Validate(ctx, obj)
	if err != nil || len(errs) > 0 {
		return errs, err
	}
	access := policyAccess{resource: gr, given: others, cfg: PolicyAccessConfig{Authorizer: x.cfg.Authorizer,
		Stored: func(group, resource string) any {
			return x.loader.builtin(schema.GroupResource{Group: group, Resource: resource})
		}}}
	return access.Validate(ctx, obj)
}

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
			q.notes = append(q.notes, fmt.Sprintf("binding %q names the %s %q, which there is not: nothing was counted for it", b.name, key.kind, key.name))
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
				q.notes = append(q.notes, fmt.Sprintf("no binding names the %s %q, so that its params are not known: nothing was counted for it", key.kind, key.name))
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

// count answers a question that was read, when its turn has come.
func (x *Impact) count(ctx context.Context, q *question, tell func(*v1alpha1.PolicyImpactFinding) error) (*v1alpha1.PolicyImpactStatus, error) {
	if deadline, ok := ctx.Deadline(); ok {
		rest := time.Until(deadline) - impactMargin
		if q.timeout == 0 || q.timeout > rest {
			q.timeout = rest
		}
	}
	if q.timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.timeout)
		defer cancel()
	}
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, apierrors.NewTooManyRequests("another policy impact is being counted, and one is at a time", 5)
	}
	who, _ := request.UserFrom(ctx)
	namespaces, ok := x.loader.builtin(schema.GroupResource{Resource: "namespaces"}).(rest.Getter)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("namespaces are not served"))
	}
	report, err := policy.Survey(ctx, policy.SurveyConfig{
		Catalog: rest.CatalogFrom(ctx), Policies: q.policies, Params: q.params, Namespaces: namespaces, Authorizer: x.cfg.Expressions,
		User: who, Readable: x.readable, Namespace: q.namespace, Operation: q.operation, MaxObjects: q.most, After: q.after,
	}, func(f *policy.Finding) error { return tell(findingOf(f)) })
	if err != nil {
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			return nil, err
		}
		return nil, apierrors.NewInternalError(err)
	}
	return statusOf(report, q.notes)
}

// readable reports whether whoever asks may list the objects.
func (x *Impact) readable(ctx context.Context, gvr schema.GroupVersionResource, namespace string) bool {
	who, _ := request.UserFrom(ctx)
	if who == nil {
		return true // not a request: the server itself
	}
	decision, _, err := x.cfg.Authorizer.Authorize(ctx, authorizer.AttributesRecord{User: who, Verb: "list", APIGroup: gvr.Group, APIVersion: gvr.Version,
		Resource: gvr.Resource, Namespace: namespace, ResourceRequest: true})
	return err == nil && decision == authorizer.DecisionAllow
}

func findingOf(f *policy.Finding) *v1alpha1.PolicyImpactFinding {
	return &v1alpha1.PolicyImpactFinding{Resource: f.Resource, Namespace: f.Namespace, Name: f.Name, Verdict: f.Verdict, Refused: f.Refused,
		Kind: f.Kind, Policy: f.Policy, Binding: f.Binding, Message: f.Message}
}

func statusOf(r *policy.SurveyReport, notes []string) (*v1alpha1.PolicyImpactStatus, error) {
	out := &v1alpha1.PolicyImpactStatus{Complete: r.Complete, Reason: r.Reason, Notes: notes}
	if !r.Complete {
		raw, err := json.Marshal(r.Next)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		out.Continue = base64.RawURLEncoding.EncodeToString(raw)
	}
	for _, name := range r.Idle {
		out.Notes = append(out.Notes, fmt.Sprintf("policy %q concerns no object that is stored: its rules name other resources, operations or subresources", name))
	}
	for _, s := range r.Resources {
		one := v1alpha1.PolicyImpactResource{Resource: s.Resource.GroupResource().String(), Objects: s.Objects, Concerned: s.Concerned,
			Denied: s.Denied, Changed: s.Changed, Failed: s.Failed, Warned: s.Warned, Shadowed: s.Shadowed, NotCounted: s.NotCounted}
		for _, op := range s.Operations {
			one.Operations = append(one.Operations, string(op))
		}
		out.Resources = append(out.Resources, one)
	}
	return out, nil
}
