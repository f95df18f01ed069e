package loader

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// ImpactResource is the resource of PolicyImpacts.
var ImpactResource = schema.GroupResource{Group: "weir.dev", Resource: "policyimpacts"} // never written to

const (
	defaultImpactLimit = 10
	maxImpactLimit     = 1000
	// impactMargin is left of a request's time for its answer.
	impactMargin = time.Second
	// maxImpactQuestions bounds those that are answered or wait for their turn.
	maxImpactQuestions = 16
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
	// open has those that are answered or wait; turn is taken by the one that compiles or counts.
	open, turn chan struct{}
}

var _ rest.Creater = (*Impact)(nil)

// NewImpact returns an Impact of what a Loader has in force.
func NewImpact(l *Loader, cfg ImpactConfig) (*Impact, error) {
	if cfg.Authorizer == nil {
		return nil, errors.New("policy impact: ImpactConfig needs Authorizer")
	}
	return &Impact{loader: l, cfg: cfg, open: make(chan struct{}, maxImpactQuestions), turn: make(chan struct{}, 1)}, nil
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

// Answer answers a question. tell gets all findings; its error ends the count. While it blocks, others are answered. The
// error is an apierrors.APIStatus.
func (x *Impact) Answer(ctx context.Context, spec *v1alpha1.PolicyImpactSpec, tell func(*v1alpha1.PolicyImpactFinding) error) (*v1alpha1.PolicyImpactStatus, error) {
	return x.answer(ctx, spec, asking{}, tell)
}

// asking says how a question is asked.
type asking struct {
	// wait bounds how long it waits for its turn; 0: the time of the request does.
	wait time.Duration
	// written: what is given is being written, which whoever asks may do.
	written bool
}

func (x *Impact) answer(ctx context.Context, spec *v1alpha1.PolicyImpactSpec, as asking, tell func(*v1alpha1.PolicyImpactFinding) error) (*v1alpha1.PolicyImpactStatus, error) {
	q, err := newQuestion(spec)
	if err != nil {
		return nil, err
	}
	q.written = as.written
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-impactMargin))
		defer cancel()
	}
	select {
	case x.open <- struct{}{}:
		defer func() { <-x.open }()
	default:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d policy impacts wait to be counted already", maxImpactQuestions), 5)
	}
	turn := impactTurn{of: x.turn}
	if err := turn.take(ctx, as.wait); err != nil {
		return nil, apierrors.NewTooManyRequests("another policy impact is being counted, and one is at a time", 5)
	}
	defer turn.give()
	if q.timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.timeout)
		defer cancel()
	}
	defer q.release()
	if err := x.compile(ctx, q); err != nil {
		return nil, err
	}
	return x.count(ctx, q, func(f *v1alpha1.PolicyImpactFinding) error {
		return turn.whileBlocked(ctx, func() error { return tell(f) })
	})
}

// count answers a question that was compiled.
func (x *Impact) count(ctx context.Context, q *question, tell func(*v1alpha1.PolicyImpactFinding) error) (*v1alpha1.PolicyImpactStatus, error) {
	who, _ := request.UserFrom(ctx)
	namespaces, ok := x.loader.builtin(schema.GroupResource{Resource: "namespaces"}).(rest.Getter)
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("namespaces are not served"))
	}
	expressions := x.cfg.Expressions
	if !q.mayAsk {
		ctx, expressions = withoutAsking(ctx), nil
	}
	report, err := policy.Survey(ctx, policy.SurveyConfig{
		Catalog: rest.CatalogFrom(ctx), Policies: q.policies, Params: q.params, Namespaces: namespaces, Authorizer: expressions,
		User: who, Readable: x.readable, NamespaceReadable: x.namespaceReadable, Namespace: q.namespace, Operation: q.operation, MaxObjects: q.most, After: q.after,
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
	return x.may(ctx, &authorizer.AttributesRecord{Verb: "list", APIGroup: gvr.Group, APIVersion: gvr.Version, Resource: gvr.Resource, Namespace: namespace})
}

// namespaceReadable reports whether whoever asks may get a namespace; with "", all of them.
func (x *Impact) namespaceReadable(ctx context.Context, name string) bool {
	return x.may(ctx, &authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "namespaces", Namespace: name, Name: name})
}

// may reports whether whoever asks may do something with a resource.
func (x *Impact) may(ctx context.Context, a *authorizer.AttributesRecord) bool {
	a.ResourceRequest = true
	if a.User, _ = request.UserFrom(ctx); a.User == nil {
		return true // not a request: the server itself
	}
	decision, _, err := x.cfg.Authorizer.Authorize(ctx, a)
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
	if r.Renewed {
		out.Notes = append(out.Notes, "the state that was counted is compacted: the rest of its objects were counted in a newer one, a few perhaps twice or not at all")
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
