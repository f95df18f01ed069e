package extension

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/extension/policy"
)

// GuestJudge is a policies.Judge whose verdict is that of a module's admitValidate hook.
type GuestJudge struct{ guest Guest }

var (
	_ policies.Judge    = GuestJudge{}
	_ policy.LateReader = GuestJudge{}
	_ policy.LateReader = GuestMutator{}
)

// NewGuestJudge returns the judge of a module, which must handle abi.OpAdmitValidate.
func NewGuestJudge(guest Guest) GuestJudge { return GuestJudge{guest} }

// ReadsLate implements policy.LateReader: few modules read what is not the object, and nobody knows which before they run.
func (GuestJudge) ReadsLate(string) bool { return true }

// Judge implements policies.Judge. Its error is a *host.Error.
func (g GuestJudge) Judge(ctx context.Context, r *policies.Review) (*policies.Decision, error) {
	res, err := callPolicy(ctx, g.guest, abi.OpAdmitValidate, r)
	if err != nil {
		return nil, err
	}
	d := &policies.Decision{Warnings: res.Warnings, Denials: denialsOf(res)}
	for key, value := range res.Audit {
		d.AuditAnnotations = append(d.AuditAnnotations, policies.AuditAnnotation{Key: key, Value: value})
	}
	slices.SortFunc(d.AuditAnnotations, func(a, b policies.AuditAnnotation) int {
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	return d, nil
}

// GuestMutator is a policy.Mutator that makes the change of a module's admitMutate hook.
type GuestMutator struct {
	guest      Guest
	conditions *policies.Conditions
}

var _ policy.Mutator = GuestMutator{}

// NewGuestMutator returns the mutator of a module, which must handle abi.OpAdmitMutate. conditions may be nil.
func NewGuestMutator(guest Guest, conditions *policies.Conditions) GuestMutator {
	return GuestMutator{guest, conditions}
}

// ReadsLate implements policy.LateReader.
func (g GuestMutator) ReadsLate(input string) bool { return !g.conditions.Mentions(input) }

// Holds implements policy.Mutator.
func (g GuestMutator) Holds(ctx context.Context, r *policies.Review) (bool, error) {
	return g.conditions.Hold(ctx, r)
}

// Mutate implements policy.Mutator. Its error is a *host.Error, or a policy.Refusal where the module refuses.
func (g GuestMutator) Mutate(ctx context.Context, obj *document.Document, r *policies.Review, change policy.Changer) (*document.Document, error) {
	res, err := callPolicy(ctx, g.guest, abi.OpAdmitMutate, r)
	if err != nil {
		return nil, err
	}
	if denials := denialsOf(res); len(denials) > 0 {
		return nil, policy.Refusal(denials)
	}
	if res.Object == nil || res.Object.Equal(obj) {
		return obj, nil
	}
	return change.Default(ctx, res.Object)
}

// callPolicy calls one of the hooks of admission.
func callPolicy(ctx context.Context, guest Guest, op abi.Op, r *policies.Review) (*host.Result, error) {
	p := &policyCall{review: r, call: host.Call{Op: op, Object: r.Object.Document(), OldObject: r.OldObject.Document(), Params: r.Params.Document(),
		Namespace: r.NamespaceObject.Document(), Budget: BudgetFrom(ctx)}}
	p.call.Late = p.late
	res, err := guest.Call(ctx, &p.call)
	auditCall(ctx, guest.Name(), op, res, err)
	if err == nil {
		r.Spent.Add(policies.Cost{Used: res.Fuel})
	}
	return res, err
}

// policyCall is a call by which a policy is judged. What the object and the params do not say is made when it is read.
type policyCall struct {
	call   host.Call
	review *policies.Review
}

// late is host.Call.Late.
func (p *policyCall) late(ctx context.Context, slot abi.Slot) (*document.Document, error) {
	switch slot {
	case abi.SlotMeta:
		operation, about := abi.OperationUpdate, p.call.Object
		switch {
		case p.call.Object == nil:
			operation, about = abi.OperationDelete, p.call.OldObject
		case p.call.OldObject == nil:
			operation = abi.OperationCreate
		}
		return metaOf(ctx, operation, about, p.request())
	case abi.SlotOptions:
		return p.request().Get("options").Document(), nil
	case abi.SlotNamespace:
		if late := p.review.Late; late != nil {
			namespace, err := late.NamespaceObject(ctx)
			return namespace.Document(), err
		}
	}
	return nil, nil
}

// request is the AdmissionRequest that is judged.
func (p *policyCall) request() document.Value {
	if late := p.review.Late; late != nil && !p.review.Request.Exists() {
		return late.Request()
	}
	return p.review.Request
}

// denialsOf gives what a guest refuses: the request as a whole, or fields.
func denialsOf(res *host.Result) []policies.Denial {
	var list []policies.Denial
	if d := res.Denied; d != nil {
		reason := d.Reason
		if reason == "" {
			reason = string(reasonOf(d.Code))
		}
		list = append(list, policies.Denial{Message: d.Message, Reason: reason, Code: d.Code})
	}
	for _, e := range fieldErrors(res.Errors) {
		list = append(list, policies.Denial{Message: e.Error(), Field: e.Field, Reason: string(metav1.StatusReasonInvalid)})
	}
	return list
}
