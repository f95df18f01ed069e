package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	storagevalue "k8s.io/apiserver/pkg/storage/value"

	"weir.dev/weir/server/storage/value"
)

// provider reads and writes the rows that begin with its prefix: one key of aesgcm, aescbc or secretbox, a KMS
// plugin, or identity, whose prefix is empty.
type provider struct {
	// name is for errors, e.g. aesgcm key "a".
	name string
	// family is the prefix without the name of a key, a label of metrics.
	family string
	prefix []byte
	// shortest is how long a row is at least after the prefix.
	shortest int
	// mismatch is the error of a row that was not made with this key, where the transformer's own misleads.
	mismatch    error
	transformer storagevalue.Transformer
	// remote says that it cannot fail to encrypt but when what it needs does not answer.
	remote bool
}

// chain are the providers of a resource. The first writes.
type chain []provider

// read returns what a row holds, the provider that read it, and whether it is stale.
func (c chain) read(ctx context.Context, data []byte, dataCtx value.Context) (out []byte, by int, stale bool, err error) {
	var errs []error
	for i := range c {
		p := &c[i]
		if !bytes.HasPrefix(data, p.prefix) || (len(p.prefix) == 0 && encrypted(data)) {
			continue
		}
		out, stale, err := p.read(ctx, data[len(p.prefix):], dataCtx)
		if err == nil {
			return out, i, stale || i > 0, nil
		}
		// Two providers may have a key of the same name.
		errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
	}
	switch {
	case len(errs) > 0:
		return nil, 0, false, errors.Join(errs...)
	case encrypted(data):
		return nil, 0, false, fmt.Errorf("row is encrypted as %q, for which no provider is configured", family(data))
	}
	return nil, 0, false, errors.New("row is not encrypted, and identity is not among the providers")
}

func (p *provider) read(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if len(data) < p.shortest {
		return nil, false, fmt.Errorf("stored data is cut off: %d bytes, at least %d are needed", len(data), p.shortest)
	}
	out, stale, err := p.transformer.TransformFromStorage(ctx, data, dataCtx)
	if err != nil && p.mismatch != nil {
		err = p.mismatch
	}
	return out, stale, err
}

// write returns what is to be stored.
func (c chain) write(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	p := &c[0]
	out, err := p.transformer.TransformToStorage(ctx, data, dataCtx)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
		if p.remote {
			err = &value.UnavailableError{Err: err}
		}
		return nil, err
	}
	if len(p.prefix) == 0 {
		return out, nil
	}
	return append(append(make([]byte, 0, len(p.prefix)+len(out)), p.prefix...), out...), nil
}

func encrypted(data []byte) bool { return bytes.HasPrefix(data, []byte(value.EncryptedPrefix)) }

// longestFamily bounds what is shown of a row.
const longestFamily = 128

// family returns how an encrypted row says that it was encrypted: up to the name of its key.
func family(data []byte) []byte {
	data = data[:min(len(data), longestFamily)]
	end := 0
	for range 5 { // k8s:enc:<provider>:<version>:<name>:
		i := bytes.IndexByte(data[end:], ':')
		if i < 0 {
			break
		}
		end += i + 1
	}
	return data[:end]
}

// view is the chain of one resource in one generation, with its counters.
type view struct {
	of    *generation
	chain chain
	// read counts by provider.
	read   []transformation
	wrote  transformation
	failed func(direction, family string, err error)
}

func (v *view) transformFrom(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if v.chain == nil {
		return value.Identity{}.TransformFromStorage(ctx, data, dataCtx)
	}
	started := time.Now()
	out, by, stale, err := v.chain.read(ctx, data, dataCtx)
	if err != nil {
		v.failed(fromStorage, v.labelOf(data), err)
		return nil, false, err
	}
	v.read[by].observe(started)
	return out, stale, nil
}

func (v *view) transformTo(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	if v.chain == nil {
		return data, nil
	}
	started := time.Now()
	out, err := v.chain.write(ctx, data, dataCtx)
	if err != nil {
		v.failed(toStorage, v.chain[0].family, err)
		return nil, err
	}
	v.wrote.observe(started)
	return out, nil
}

// labelOf returns the family of the first provider that would read a row, for a bounded label.
func (v *view) labelOf(data []byte) string {
	for i := range v.chain {
		if p := &v.chain[i]; len(p.prefix) > 0 && bytes.HasPrefix(data, p.prefix) {
			return p.family
		}
	}
	return "unknown"
}
