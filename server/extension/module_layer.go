package extension

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/rest"
)

// Guest is what a ModuleLayer calls. *host.Module implements it.
type Guest interface {
	// Name of the module.
	Name() string
	// Handles reports whether the module implements a hook.
	Handles(op abi.Op) bool
	// Call runs a hook. An error is a *host.Error.
	Call(ctx context.Context, call *host.Call) (*host.Result, error)
}

var _ Guest = (*host.Module)(nil)

// ModuleLayer is a rest.Layer whose hooks are those of a Wasm module.
//
// An error of the host is returned as it is and reads `module[quota]
// hook[validateCreate]: fuel exhausted …`; the strategy makes a Status of it, 504 for a
// deadline and 500 for all else. What the guest refuses as a whole is an
// apierrors.StatusError.
type ModuleLayer struct {
	guest Guest
	name  string
	hooks rest.HookSet
	ops   layerOps
}

var _ rest.Layer = (*ModuleLayer)(nil)

// layerOps are the ops behind those hooks that are not the same for every subresource.
type layerOps struct{ prepareForUpdate, validateUpdate abi.Op }

// NewModuleLayer returns the layer of a module for a subresource: "" for the object.
// On status an update calls statusPrepare and statusValidate.
func NewModuleLayer(guest Guest, subresource string) *ModuleLayer {
	l := &ModuleLayer{
		guest: guest,
		name:  "module[" + guest.Name() + "]",
		ops:   layerOps{abi.OpPrepareForUpdate, abi.OpValidateUpdate},
	}
	if subresource == rest.SubresourceStatus {
		l.ops = layerOps{abi.OpStatusPrepare, abi.OpStatusValidate}
	}
	for hook, op := range map[rest.Hook]abi.Op{
		rest.HookDefault:          abi.OpDefault,
		rest.HookPrepareForCreate: abi.OpPrepareForCreate,
		rest.HookValidate:         abi.OpValidateCreate,
		rest.HookWarningsOnCreate: abi.OpWarningsOnCreate,
		rest.HookPrepareForUpdate: l.ops.prepareForUpdate,
		rest.HookValidateUpdate:   l.ops.validateUpdate,
		rest.HookWarningsOnUpdate: abi.OpWarningsOnUpdate,
		rest.HookValidateDelete:   abi.OpValidateDelete,
		rest.HookCanonicalize:     abi.OpCanonicalize,
	} {
		if guest.Handles(op) {
			l.hooks |= rest.HookSet(hook)
		}
	}
	return l
}

// Name implements rest.Layer.
func (l *ModuleLayer) Name() string { return l.name }

// Implements implements rest.Layer.
func (l *ModuleLayer) Implements() rest.HookSet { return l.hooks }

// Default implements rest.Hooks.
func (l *ModuleLayer) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return l.change(ctx, abi.OpDefault, "", obj, nil)
}

// PrepareForCreate implements rest.Hooks.
func (l *ModuleLayer) PrepareForCreate(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return l.change(ctx, abi.OpPrepareForCreate, abi.OperationCreate, obj, nil)
}

// Validate implements rest.Hooks.
func (l *ModuleLayer) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	return l.judge(ctx, abi.OpValidateCreate, abi.OperationCreate, obj, nil)
}

// WarningsOnCreate implements rest.Hooks.
func (l *ModuleLayer) WarningsOnCreate(ctx context.Context, obj *document.Document) ([]string, error) {
	return l.warn(ctx, abi.OpWarningsOnCreate, abi.OperationCreate, obj, nil)
}

// PrepareForUpdate implements rest.Hooks.
func (l *ModuleLayer) PrepareForUpdate(ctx context.Context, obj, old *document.Document) (*document.Document, error) {
	return l.change(ctx, l.ops.prepareForUpdate, abi.OperationUpdate, obj, old)
}

// ValidateUpdate implements rest.Hooks.
func (l *ModuleLayer) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	return l.judge(ctx, l.ops.validateUpdate, abi.OperationUpdate, obj, old)
}

// WarningsOnUpdate implements rest.Hooks.
func (l *ModuleLayer) WarningsOnUpdate(ctx context.Context, obj, old *document.Document) ([]string, error) {
	return l.warn(ctx, abi.OpWarningsOnUpdate, abi.OperationUpdate, obj, old)
}

// ValidateDelete implements rest.Hooks.
func (l *ModuleLayer) ValidateDelete(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	return l.judge(ctx, abi.OpValidateDelete, abi.OperationDelete, nil, obj)
}

// Canonicalize implements rest.Hooks.
func (l *ModuleLayer) Canonicalize(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return l.change(ctx, abi.OpCanonicalize, "", obj, nil)
}

// call runs a hook, and passes on what every hook may give: a denial, audit annotations,
// and the warnings, unless keepWarnings.
func (l *ModuleLayer) call(ctx context.Context, op abi.Op, operation abi.Operation, obj, old *document.Document, keepWarnings bool) (*host.Result, error) {
	about := obj
	if about == nil {
		about = old
	}
	meta, err := metaOf(ctx, operation, about, document.Value{})
	if err != nil {
		return nil, err
	}
	res, err := l.guest.Call(ctx, &host.Call{Op: op, Meta: meta, Object: obj, OldObject: old, Budget: BudgetFrom(ctx)})
	auditCall(ctx, l.guest.Name(), op, res, err)
	if err != nil {
		return nil, err
	}
	for key, value := range res.Audit {
		audit.AddAuditAnnotation(ctx, l.guest.Name()+".module.weir.dev/"+key, value)
	}
	if !keepWarnings {
		for _, w := range res.Warnings {
			warning.AddWarning(ctx, "", w)
		}
	}
	if res.Denied != nil {
		return nil, denied(res.Denied)
	}
	return res, nil
}

func (l *ModuleLayer) change(ctx context.Context, op abi.Op, operation abi.Operation, obj, old *document.Document) (*document.Document, error) {
	if !l.guest.Handles(op) {
		return obj, nil
	}
	res, err := l.call(ctx, op, operation, obj, old, false)
	if err != nil {
		return nil, err
	}
	if len(res.Errors) > 0 {
		return nil, invalid(obj, fieldErrors(res.Errors))
	}
	if res.Object == nil {
		return obj, nil
	}
	if field := rest.IdentityChange(obj, res.Object); field != "" {
		return nil, &host.Error{Module: l.guest.Name(), Op: op, Class: host.ClassBadOutput, Message: "bad output: " + field + " may not be changed", Fuel: res.Fuel}
	}
	return unchanged(obj, res.Object), nil
}

func (l *ModuleLayer) judge(ctx context.Context, op abi.Op, operation abi.Operation, obj, old *document.Document) (field.ErrorList, error) {
	if !l.guest.Handles(op) {
		return nil, nil
	}
	res, err := l.call(ctx, op, operation, obj, old, false)
	if err != nil {
		return nil, err
	}
	return fieldErrors(res.Errors), nil
}

func (l *ModuleLayer) warn(ctx context.Context, op abi.Op, operation abi.Operation, obj, old *document.Document) ([]string, error) {
	if !l.guest.Handles(op) {
		return nil, nil
	}
	res, err := l.call(ctx, op, operation, obj, old, true)
	if err != nil {
		return nil, err
	}
	return res.Warnings, nil
}

// denied makes the Status of a denial. Its code is 400 to 599.
func denied(d *abi.Denial) error {
	code := d.Code
	if code == 0 {
		code = http.StatusForbidden
	}
	reason := metav1.StatusReason(d.Reason)
	if reason == "" {
		reason = reasonOf(code)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  reason,
		Message: d.Message,
	}}
}

func reasonOf(code int32) metav1.StatusReason {
	switch code {
	case http.StatusBadRequest:
		return metav1.StatusReasonBadRequest
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusGone:
		return metav1.StatusReasonGone
	case http.StatusRequestEntityTooLarge:
		return metav1.StatusReasonRequestEntityTooLarge
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	}
	return metav1.StatusReasonUnknown
}

// fieldErrors gives a guest's field errors in the server's form.
func fieldErrors(errs []abi.FieldError) field.ErrorList {
	if len(errs) == 0 {
		return nil
	}
	list := make(field.ErrorList, len(errs))
	for i, e := range errs {
		list[i] = &field.Error{Type: field.ErrorType(e.Type), Field: e.Field, BadValue: badValue(e), Detail: e.Detail}
	}
	return list
}

func badValue(e abi.FieldError) any {
	if len(e.Value) > 0 {
		if d, err := document.Parse(e.Value); err == nil {
			return d.Root().Interface()
		}
	}
	switch e.Type {
	case abi.ErrorTypeRequired, abi.ErrorTypeForbidden:
		return ""
	}
	return field.OmitValueType{}
}
