package endpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// attributes describes the request to admission. options are one of metav1's.
func (sc *scope) attributes(ctx context.Context, op admission.Operation, options any, dryRun []string) (admission.Attributes, error) {
	a := admission.Attributes{
		Operation:   op,
		Kind:        sc.kind,
		Resource:    sc.gvr,
		Subresource: sc.subresource(),
		Namespace:   sc.namespace,
		Name:        sc.name,
		DryRun:      isDryRun(dryRun),
		UID:         audit.GetAuditIDTruncated(ctx),
	}
	a.User, _ = request.UserFrom(ctx)
	var err error
	a.Options, err = optionsDocument(options)
	return a, err
}

// optionsDocument encodes options. Those of most writes are put together by hand: few rules read them.
func optionsDocument(options any) (*document.Document, error) {
	kind, manager, validation, plain := "", "", "", false
	switch o := options.(type) {
	case *metav1.CreateOptions:
		kind, manager, validation, plain = o.Kind, o.FieldManager, o.FieldValidation, o.APIVersion == optionsVersion && len(o.DryRun) == 0
	case *metav1.UpdateOptions:
		kind, manager, validation, plain = o.Kind, o.FieldManager, o.FieldValidation, o.APIVersion == optionsVersion && len(o.DryRun) == 0
	}
	if plain && kind != "" && isPlainText(manager) && isPlainText(validation) {
		raw := append(make([]byte, 0, 128+len(manager)), `{"apiVersion":"`+optionsVersion+`"`...)
		if manager != "" {
			raw = append(append(append(raw, `,"fieldManager":"`...), manager...), '"')
		}
		if validation != "" {
			raw = append(append(append(raw, `,"fieldValidation":"`...), validation...), '"')
		}
		return document.FromCanonical(append(append(append(raw, `,"kind":"`...), kind...), `"}`...)), nil
	}
	raw, err := json.Marshal(options)
	if err != nil {
		return nil, fmt.Errorf("options of the request: %w", err)
	}
	return document.Parse(raw)
}

// optionsVersion is the version of metav1's options.
const optionsVersion = metav1.GroupName + "/v1"

// isPlainText reports whether JSON spells text as it is.
func isPlainText(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// admit runs the mutators on obj, whose live state is old or nil, and defaults it
// after each that changed it.
func (s *server) admit(ctx context.Context, sc *scope, a admission.Attributes, obj, old *document.Document) (*document.Document, error) {
	if s.Admission == nil {
		return obj, nil
	}
	a.Object, a.OldObject, a.Default = obj, old, sc.defaults
	sc.nameAttributes(&a, obj)
	for _, m := range s.Admission.Mutators {
		if !m.Handles(a.Operation) {
			continue
		}
		before := a.Object
		if err := m.Admit(ctx, &a); err != nil {
			return nil, err
		}
		if a.Object == before {
			continue
		}
		if a.Object == nil {
			return nil, apierrors.NewInternalError(errors.New("admission removed the object of the request"))
		}
		defaulted, err := sc.defaults(ctx, a.Object)
		if err != nil {
			return nil, err
		}
		a.Object = defaulted
	}
	return dedupOwners(ctx, a.Object, duplicateOwnersAdmitted)
}

// nameAttributes fills in what a create learns from its object only. A namespace
// is in itself, as upstream has it.
func (sc *scope) nameAttributes(a *admission.Attributes, obj *document.Document) {
	if a.Name == "" && obj != nil {
		a.Name = obj.Get("metadata", "name").String()
	}
	if a.Namespace == "" && sc.gvr.Group == "" && sc.gvr.Resource == "namespaces" {
		a.Namespace = a.Name
	}
}

// validateCreate runs the validators on what will be stored.
func (s *server) validateCreate(sc *scope, a admission.Attributes) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj *document.Document) error {
		if s.Admission == nil {
			return nil
		}
		served, err := sc.fromStored(ctx, obj)
		if err != nil {
			return err
		}
		a := a
		a.Object = served
		sc.nameAttributes(&a, served)
		return s.Admission.Validate(ctx, &a)
	}
}

// validateUpdate runs the validators on what will be stored.
func (s *server) validateUpdate(sc *scope, a admission.Attributes) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old *document.Document) error {
		if s.Admission == nil {
			return nil
		}
		served, err := sc.fromStored(ctx, obj)
		if err != nil {
			return err
		}
		servedOld, err := sc.fromStored(ctx, old)
		if err != nil {
			return err
		}
		a := a
		a.Object, a.OldObject = served, servedOld
		sc.nameAttributes(&a, served)
		return s.Admission.Validate(ctx, &a)
	}
}

// validateDelete runs the mutators, which may refuse, and the validators on what
// will be deleted.
func (s *server) validateDelete(sc *scope, a admission.Attributes) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj *document.Document) error {
		if s.Admission == nil {
			return nil
		}
		served, err := sc.fromStored(ctx, obj)
		if err != nil {
			return err
		}
		a := a
		a.OldObject = served
		sc.nameAttributes(&a, served)
		if err := s.Admission.Admit(ctx, &a); err != nil {
			return err
		}
		return s.Admission.Validate(ctx, &a)
	}
}

// authorizeCreate asks for `create` before an update creates an object: the
// filters have only asked for update or patch.
func (s *server) authorizeCreate(sc *scope, path string, validate rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	if s.Authorizer == nil {
		return validate
	}
	return func(ctx context.Context, obj *document.Document) error {
		who, _ := request.UserFrom(ctx)
		attributes := authorizer.AttributesRecord{
			User:            who,
			Verb:            "create",
			Namespace:       sc.namespace,
			APIGroup:        sc.gvr.Group,
			APIVersion:      sc.gvr.Version,
			Resource:        sc.gvr.Resource,
			Subresource:     sc.subresource(),
			Name:            sc.name,
			ResourceRequest: true,
			Path:            path,
		}
		decision, reason, err := s.Authorizer.Authorize(ctx, attributes)
		switch {
		case decision == authorizer.DecisionAllow:
			return validate(ctx, obj)
		case err != nil:
			return apierrors.NewInternalError(err)
		default:
			return request.NewForbidden(attributes, reason)
		}
	}
}

// isDryRun reports whether nothing is to be stored.
func isDryRun(dryRun []string) bool {
	for _, d := range dryRun {
		if d == metav1.DryRunAll {
			return true
		}
	}
	return false
}
