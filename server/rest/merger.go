package rest

import (
	"context"

	"weir.dev/weir/abi/document"
)

// Merger is a FieldManager that can also set fields without an owner, as a policy does.
type Merger interface {
	// Merge sets the fields that configuration has in obj, by the list types of the kind. What is atomic cannot be
	// merged and is refused. An error is for the author of the configuration.
	Merge(ctx context.Context, obj, configuration *document.Document) (*document.Document, error)
}
