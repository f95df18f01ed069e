// Package value says how the bytes of a row are changed on their way to the storage
// and back: as they are, or encrypted.
package value

import "context"

// Context is what is known of a row besides its bytes. Its method set is the one of
// upstream's encryption transformers.
type Context interface {
	// AuthenticatedData returns what a ciphertext is bound to, so that it cannot be
	// read under another key.
	AuthenticatedData() []byte
}

// Key is the Context of the row of that whole key.
type Key string

// AuthenticatedData implements Context.
func (k Key) AuthenticatedData() []byte { return []byte(k) }

// Transformer changes the bytes of a row. All methods are safe for concurrent use
// and neither keep nor change data.
type Transformer interface {
	// TransformFromStorage returns the bytes that TransformToStorage was given.
	// stale says that TransformToStorage would store them otherwise now, so that
	// even an update that changes nothing should write. out may be data itself.
	TransformFromStorage(ctx context.Context, data []byte, dataCtx Context) (out []byte, stale bool, err error)
	// TransformToStorage returns the bytes to store, which may be data itself.
	TransformToStorage(ctx context.Context, data []byte, dataCtx Context) (out []byte, err error)
}

// Identity is the Transformer that changes nothing.
type Identity struct{}

var _ Transformer = Identity{}

// TransformFromStorage implements Transformer.
func (Identity) TransformFromStorage(_ context.Context, data []byte, _ Context) ([]byte, bool, error) {
	return data, false, nil
}

// TransformToStorage implements Transformer.
func (Identity) TransformToStorage(_ context.Context, data []byte, _ Context) ([]byte, error) {
	return data, nil
}
