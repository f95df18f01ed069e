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

// ReadsNamespaceLate implements policy.LateReader: few modules read it, and nobody knows which before they run.
func (GuestJudge) ReadsNamespaceLate() bool { return true }

// Judge implements policies.Judge. Its error is a *host.Error.
func (g GuestJudge) Judge(ctx context.Context, r *policies.Review) (*policies.Decision, error) {
	res, err := callPolicy(ctx, g.guest, abi.OpAdmitValidate, r)
	if err != nil {
		return nil, err
	}
	d := &policies.Decision{Warnings: res.Warnings, Denials: denialsOf(res), Cost: policies.Cost{Used: res.Fuel}}
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

// ReadsNamespaceLate implements policy.LateReader.
func (GuestMutator) ReadsNamespaceLate() bool { return true }

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
	operation, about := abi.OperationUpdate, r.Object
	switch {
	case !r.Object.Exists():
		operation, about = abi.OperationDelete, r.OldObject
	case !r.OldObject.Exists():
		operation = abi.OperationCreate
	}
	meta, err := metaOf(ctx, operation, about.Document(), r.Request)
	if err != nil {
		return nil, err
	}
	call := &host.Call{Op: op, Meta: meta, Object: r.Object.Document(), OldObject: r.OldObject.Document(),
		Options: r.Request.Get("options").Document(), Params: r.Params.Document(), Budget: BudgetFrom(ctx)}
	if read := r.ReadNamespace; read != nil {
		call.ReadNamespace = func(ctx context.Context) (*document.Document, error) {
			namespace, err := read(ctx)
			return namespace.Document(), err
		}
	} else {
		call.Namespace = r.NamespaceObject.Document()
	}
	res, err := guest.Call(ctx, call)
	auditCall(ctx, guest.Name(), op, res, err)
	if err == nil {
		r.Spent.Add(policies.Cost{Used: res.Fuel})
	}
	return res, err
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
