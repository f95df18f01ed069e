package policy

import (
	"context"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// Mentioner is a Judge that knows which inputs it reads. What it does not read is not made.
type Mentioner interface {
	// Mentions reports whether an input is read: request or namespaceObject.
	Mentions(input string) bool
}

// LateReader is a Judge or Mutator that takes inputs from Review.Late: they are not made before, and the Review does not
// have them.
type LateReader interface {
	// ReadsLate reports whether it does with an input: request or namespaceObject.
	ReadsLate(input string) bool
}

// Mutator changes what a client sent.
type Mutator interface {
	// Holds reports whether all match conditions hold, which see no namespace. Its error says that this cannot be told.
	Holds(ctx context.Context, r *policies.Review) (bool, error)
	// Mutate returns the changed object, obj itself where nothing changed. change merges and defaults as
	// the kind of the object wants it. Each mutation sees what the ones before it made.
	Mutate(ctx context.Context, obj *document.Document, r *policies.Review, change Changer) (*document.Document, error)
}

// Changer knows the kind of an object that is changed.
type Changer interface {
	// Merge merges an apply configuration, which names the fields that it sets.
	Merge(ctx context.Context, obj, configuration *document.Document) (*document.Document, error)
	// Default fills in what obj leaves out.
	Default(ctx context.Context, obj *document.Document) (*document.Document, error)
}

// Refusal is the error of a Mutator that refuses a request, as a validating policy would: its failure policy does not
// matter.
type Refusal []policies.Denial

// Error implements error.
func (r Refusal) Error() string {
	if len(r) == 0 {
		return "refused"
	}
	return r[0].Message
}
