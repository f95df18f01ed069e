package storage

import "context"

type ownWritesKey struct{}

// WithOwnWrites returns a context whose gets of no resourceVersion see every write that this server has acknowledged
// before, and may miss what another server has a moment ago. A cache answers them without a question for the storage;
// without one they are those of the most recent state.
func WithOwnWrites(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownWritesKey{}, true)
}

// OwnWrites reports whether ctx is of WithOwnWrites.
func OwnWrites(ctx context.Context) bool {
	own, _ := ctx.Value(ownWritesKey{}).(bool)
	return own
}
