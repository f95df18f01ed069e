package host

import (
	"context"
	"errors"
	"slices"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/internal/rewrite"
)

// Inspection is what a module is, without its being put to use.
type Inspection struct {
	// Digest of the bytes: sha256:<hex>.
	Digest string
	// Manifest is how the module describes itself.
	Manifest abi.Manifest
	// Imports are the functions it imports, as module.name, sorted.
	Imports []string
	// MemoryBytes is the size of its memory once it is initialised.
	MemoryBytes int
	// Resettable is false if each call needs a new guest.
	Resettable bool
}

// Inspect checks a module and has it describe itself. Other than with Load it
// is neither configured, so that it needs no settings, nor warmed. Zero limits
// are the runtime's. An error is an [Error], or that of the limits.
func (r *Runtime) Inspect(ctx context.Context, wasm []byte, limits Limits) (*Inspection, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	limits = limits.or(r.config.Limits)
	i, err := r.inspect(ctx, wasm, limits)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Class: ClassNotReady, Message: err.Error(), Err: err}
		}
		return nil, e
	}
	return i, nil
}

func (r *Runtime) inspect(ctx context.Context, wasm []byte, limits Limits) (*Inspection, error) {
	if len(wasm) > limits.ModuleBytes {
		return nil, gateError(&rewrite.Error{Kind: rewrite.Limit, Msg: sizeMessage(len(wasm), limits.ModuleBytes)})
	}
	a, err := r.acquire(ctx, wasm, limits)
	if err != nil {
		return nil, err
	}
	defer r.release(a)
	g, err := a.newGuest(ctx)
	if err != nil {
		return nil, err
	}
	defer g.close()
	m := &Module{artefact: a, config: ModuleConfig{Limits: limits}}
	c := m.invocation(ctx, &Call{}, nil)
	c.look.loading = true
	c.limit *= loadFactor
	c.deadline = c.now().Add(loadFactor * limits.Timeout)
	if err := g.initialize(c); err != nil {
		return nil, err
	}
	if err := m.describe(g, c); err != nil {
		return nil, err
	}
	i := &Inspection{Digest: a.digest, Manifest: m.manifest, MemoryBytes: int(g.memory.Size()), Resettable: a.resettable}
	for _, f := range a.compiled.ImportedFunctions() {
		if module, name, _ := f.Import(); module != rewrite.ImportModule {
			i.Imports = append(i.Imports, module+"."+name)
		}
	}
	slices.Sort(i.Imports)
	return i, nil
}
