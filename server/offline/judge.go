package offline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// Outcome is what comes of a request.
type Outcome struct {
	// Verdicts are what the policies say that concern it, in the order in which they were asked.
	Verdicts []Verdict
	// Status is the answer to a request that is refused, nil for one that is admitted.
	Status *metav1.Status
	// Warnings for the client.
	Warnings []string
	// Object as the mutating policies leave it, nil where there is none. Changed says that they changed it.
	Object  *document.Document
	Changed bool
	// Cost of all judgements.
	Cost policies.Cost
}

// Verdict is what one policy says by one binding and one param.
type Verdict struct {
	// Kind and Policy name the policy, Binding its binding.
	Kind, Policy, Binding string
	// Outcome is one of those of package policy: allow, deny, error, ignored_error, mutate, shadow_deny, shadow_mutate.
	Outcome string
	Message string
	Cost    policies.Cost
}

// judgedAt is the clock of all requests, so that a verdict is the same each time.
var judgedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Judge judges a request. The error says that it could not be asked: its kind is not known, or it is not a request.
func (s *Set) Judge(ctx context.Context, r *Request) (*Outcome, error) {
	a, err := s.attributes(r)
	if err != nil {
		return nil, err
	}
	if policy.IsExempt(a.Resource.Group, a.Resource.Resource) {
		return nil, errExempt
	}
	out := &Outcome{}
	around := &surroundings{namespace: r.Namespace, params: r.Params, objects: s.objects, bound: r.Bound, allow: r.Allow}
	admission, err := s.workbench.admission(r.Allow)
	if err != nil {
		return nil, err
	}
	index := s.index
	if r.WithoutParams {
		index = s.unbound
	}
	at := r.Time
	if at.IsZero() {
		at = judgedAt
	}
	warnings := &warningList{}
	ctx = context.WithValue(ctx, surroundingsKey{}, around)
	ctx = rest.WithCatalog(ctx, &catalog{resources: s.resources, policies: index})
	ctx = request.WithNamespace(request.WithUser(ctx, a.User), a.Namespace)
	if a.UID != "" {
		ctx = audit.WithAuditContext(ctx)
		audit.WithAuditID(ctx, types.UID(a.UID))
	}
	ctx = warning.WithWarningRecorder(apirequest.WithReceivedTimestamp(ctx, at), warnings)
	ctx = policy.WithObserver(ctx, &policy.Observer{Judged: func(j policy.Judgement) {
		v := Verdict{Kind: j.Policy.Kind, Policy: j.Policy.Name, Outcome: j.Outcome, Message: j.Message, Cost: j.Cost}
		if j.Binding != nil {
			v.Binding = j.Binding.Name
		}
		out.Cost.Add(j.Cost)
		out.Verdicts = append(out.Verdicts, v)
	}})
	before := a.Object
	if !r.OnlyValidate {
		err = admission.Admit(ctx, a)
		if err == nil && a.Default != nil && a.Object != before && a.Object != nil {
			a.Object, err = a.Default(ctx, a.Object)
		}
	}
	if err == nil && !r.OnlyMutate {
		err = admission.Validate(ctx, a)
	}
	out.Object, out.Changed = a.Object, a.Object != before && !a.Object.Equal(before)
	out.Warnings = warnings.list()
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		refusal := status.Status()
		out.Status = &refusal
	}
	return out, nil
}

// warningList collects warnings, each once, as a client gets them.
type warningList struct {
	mu    sync.Mutex
	texts []string // guarded by mu
}

var _ warning.Recorder = (*warningList)(nil)

// AddWarning implements warning.Recorder.
func (l *warningList) AddWarning(_, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.texts, text) {
		l.texts = append(l.texts, text)
	}
}

func (l *warningList) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.texts
}
