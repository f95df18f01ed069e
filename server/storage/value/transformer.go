// Package value says how the bytes of a row are changed on their way to the storage
// and back: as they are, or encrypted.
package value

import (
	"bytes"
	"context"
	"errors"
)

// EncryptedPrefix is how every encrypted row begins. JSON and protobuf do not.
const EncryptedPrefix = "k8s:enc:"

// Context is what is known of a row besides its bytes. Its method set is the one of
// upstream's encryption transformers.
type Context interface {
	// AuthenticatedData returns what a ciphertext is bound to, so that it cannot be
	// read under another key.
	AuthenticatedData() []byte
}

// Key is the Context of the row of that whole key, e.g. /registry/secrets/default/a: upstream's.
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

// UnavailableError says that a Transformer cannot do its work now, as what it needs does not answer.
// It says nothing about the row, and later the same may succeed.
type UnavailableError struct {
	Err error
}

func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ErrEncrypted says that an encrypted row is read as if it were not.
var ErrEncrypted = errors.New("row is encrypted and no provider is configured for it: give the server the --encryption-provider-config it was written with")

// Identity is the Transformer that changes nothing. It does not return an encrypted row.
type Identity struct{}

var _ Transformer = Identity{}

// TransformFromStorage implements Transformer.
func (Identity) TransformFromStorage(_ context.Context, data []byte, _ Context) ([]byte, bool, error) {
	if bytes.HasPrefix(data, []byte(EncryptedPrefix)) {
		return nil, false, ErrEncrypted
	}
	return data, false, nil
}

// TransformToStorage implements Transformer.
func (Identity) TransformToStorage(_ context.Context, data []byte, _ Context) ([]byte, error) {
	return data, nil
}
