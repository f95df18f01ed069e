// Package admission says what stands between a decoded request and storage:
// mutators, then validators. server/extension makes them of policies.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
)

// Operation of a request.
type Operation string

// The operations, as in an AdmissionReview.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Attributes describe a request. One goroutine uses them.
type Attributes struct {
	Operation   Operation
	Kind        schema.GroupVersionKind
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
	// Object is the new object, nil for a Delete. A Mutator replaces it.
	Object *document.Document
	// OldObject is the live object, nil for a Create.
	OldObject *document.Document
	// Options are the CreateOptions, UpdateOptions or DeleteOptions; may be nil.
	Options *document.Document
	DryRun  bool
	User    user.Info
	// UID of the request (its audit id).
	UID string
	// Default fills in what an object of Kind leaves out. A Mutator that makes several changes calls it after each; what
	// it leaves in Object is defaulted anyway. It may be nil.
	Default func(ctx context.Context, obj *document.Document) (*document.Document, error)
}

// Mutator changes Attributes.Object or refuses the request by an apierrors.APIStatus.
type Mutator interface {
	Handles(op Operation) bool
	Admit(ctx context.Context, a *Attributes) error
}

// Validator refuses a request by an apierrors.APIStatus. It sees what will be stored.
type Validator interface {
	Handles(op Operation) bool
	Validate(ctx context.Context, a *Attributes) error
}

// Chain runs mutators and validators in order; the first error ends it.
type Chain struct {
	Mutators   []Mutator
	Validators []Validator
}

// Admit runs the mutators. A nil Chain does nothing.
func (c *Chain) Admit(ctx context.Context, a *Attributes) error {
	if c == nil {
		return nil
	}
	for _, m := range c.Mutators {
		if m.Handles(a.Operation) {
			if err := m.Admit(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate runs the validators. A nil Chain does nothing.
func (c *Chain) Validate(ctx context.Context, a *Attributes) error {
	if c == nil {
		return nil
	}
	for _, v := range c.Validators {
		if v.Handles(a.Operation) {
			if err := v.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}
