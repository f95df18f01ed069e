package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/internal/codecache"
	"weir.dev/weir/host/internal/rewrite"
)

// artefact is compiled code, shared by the modules that use it. It has an
// engine of its own, so that nothing of it outlives it.
type artefact struct {
	host   *Runtime
	key    artefactKey
	digest string
	limits Limits
	refs   int  // guarded by host.mu
	closed bool // guarded by host.mu

	built chan struct{} // closed when the fields below are set
	// err is why it was not built; cancelled if that was the context's end.
	err       error
	cancelled bool

	engine     wazero.Runtime
	cache      wazero.CompilationCache
	compiled   wazero.CompiledModule
	globals    []string // exports of its mutable globals
	resettable bool
	codeBytes  int // of machine code, about
}

// Digest names the bytes of a module: sha256:<hex>.
func Digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (l Limits) pages() uint32 { return uint32((l.MemoryBytes + 64<<10 - 1) / (64 << 10)) }

// importsABI tells whether a compiled module imports a function of the contract.
func (a *artefact) importsABI(name string) bool {
	for _, f := range a.compiled.ImportedFunctions() {
		if module, n, _ := f.Import(); module == abi.ImportModule && n == name {
			return true
		}
	}
	return false
}

func sizeMessage(have, most int) string {
	return fmt.Sprintf("module of %d bytes, more than %d", have, most)
}

// gateError is the host's error for what the gate refuses.
func gateError(err error) *Error {
	e := &Error{Class: ClassABIMismatch, Message: "refused: " + err.Error(), Err: err}
	var re *rewrite.Error
	if errors.As(err, &re) {
		switch re.Kind {
		case rewrite.Import:
			if v := (*versionError)(nil); errors.As(re.Err, &v) {
				e.Message = "refused: " + v.Error() // wherever it was found
			} else {
				e.Class = ClassCapability
			}
		case rewrite.Memory:
			e.Class = ClassMemory
		}
	}
	return e
}

// checkExports compares what a module exports with the contract.
func checkExports(exports map[string]rewrite.FuncType) *Error {
	mismatch := func(format string, args ...any) *Error {
		return &Error{Class: ClassABIMismatch, Message: "refused: " + fmt.Sprintf(format, args...)}
	}
	if err := checkMarker(exports, abi.Version); err != nil {
		return mismatch("%v", err)
	}
	if _, ok := exports[abi.ExportInitialize]; !ok {
		if _, ok := exports["_start"]; ok {
			return mismatch("it is a command, not a reactor (Go: build with -buildmode=c-shared)")
		}
	}
	for _, want := range []struct {
		name     string
		typ      rewrite.FuncType
		optional bool
	}{
		{abi.ExportDescribe, rewrite.FuncType{Results: i32}, false},
		{abi.ExportInvoke, rewrite.FuncType{Params: i32, Results: i32}, false},
		{abi.ExportInitialize, rewrite.FuncType{}, true},
	} {
		t, ok := exports[want.name]
		if !ok && !want.optional {
			return mismatch("exports no function %s", want.name)
		}
		if ok && t != want.typ {
			return mismatch("its %s has another type than the contract's", want.name)
		}
	}
	return nil
}

// build rewrites and compiles a module.
func (a *artefact) build(ctx context.Context, wasm []byte) error {
	if err := a.host.takeTurn(ctx); err != nil {
		a.cancelled = true
		return &Error{Class: ClassDeadline, Message: "waiting to be compiled: " + err.Error(), Err: err}
	}
	defer a.host.endTurn()
	start := time.Now()
	mod, err := rewrite.Rewrite(wasm, rewrite.Options{
		Import:      importGate(a.host.imports),
		MemoryPages: a.limits.pages(),
		Depth:       uint32(a.limits.Depth),
	})
	if err != nil {
		return gateError(err)
	}
	if err := checkExports(mod.Exports); err != nil {
		return err
	}
	a.globals, a.resettable = mod.Globals, mod.Resettable
	if err := a.compile(ctx, mod); err != nil {
		a.cancelled = ctx.Err() != nil
		a.closeEngine()
		if a.cancelled {
			return &Error{Class: ClassDeadline, Message: "compile: " + context.Cause(ctx).Error(), Err: err}
		}
		return &Error{Class: ClassABIMismatch, Message: "refused: " + err.Error(), Err: err}
	}
	a.host.metrics.compiled(time.Since(start))
	return nil
}

// compile compiles a rewritten module, or reads its code from the cache.
func (a *artefact) compile(ctx context.Context, mod *rewrite.Module) error {
	entry := a.host.codeEntry(mod.Bytes)
	if entry == nil {
		defer a.host.discarded(compileGarbage * len(mod.Bytes))
		return a.compileIn(ctx, mod, "")
	}
	if entry.State != codecache.Hit {
		defer a.host.discarded(compileGarbage * len(mod.Bytes))
	}
	err := a.compileIn(ctx, mod, entry.Dir)
	switch {
	case err == nil:
		// It can run whether it is kept or not.
		a.host.metrics.cached(entry.Keep())
		return nil
	case ctx.Err() != nil || !cacheFault(err):
		entry.Discard()
		return err
	}
	a.host.metrics.cached(entry.Forget())
	a.closeEngine()
	return a.compileIn(ctx, mod, "")
}

// cacheFault tells whether it is the cache that failed: a full disk, or a file
// that has just gone.
func cacheFault(err error) bool {
	var pathError *fs.PathError
	var linkError *os.LinkError
	return errors.As(err, &pathError) || errors.As(err, &linkError) || strings.Contains(err.Error(), "compilationcache")
}

// compileIn compiles with a directory for the engine's files; "" is none.
func (a *artefact) compileIn(ctx context.Context, mod *rewrite.Module, dir string) error {
	config := wazero.NewRuntimeConfig()
	if a.host.config.Interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	a.cache = nil
	if dir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			return fmt.Errorf("compilation cache: %w", err)
		}
		a.cache = cache
		config = config.WithCompilationCache(cache)
	}
	config = config.WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(a.limits.pages() + 1).
		WithDebugInfoEnabled(false)
	a.engine = wazero.NewRuntimeWithConfig(ctx, config)
	ctx = experimental.WithCompilationWorkers(ctx, a.host.config.CompileWorkers)
	if err := a.instantiateImports(ctx, mod.Imports); err != nil {
		return err
	}
	compiled, err := a.engine.CompileModule(ctx, mod.Bytes)
	if err != nil {
		return err
	}
	a.compiled, a.codeBytes = compiled, codePerByte*len(mod.Bytes)
	return nil
}

// instantiateImports makes the host functions that a module imports.
func (a *artefact) instantiateImports(ctx context.Context, names []rewrite.ImportName) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, in := range names {
		b, ok := builders[in.Module]
		if !ok {
			b = a.engine.NewHostModuleBuilder(in.Module)
			builders[in.Module] = b
		}
		f := a.host.imports[in.Module][in.Name]
		b.NewFunctionBuilder().WithGoFunction(f.goFunc(), engineTypes(f.params), engineTypes(f.results)).Export(in.Name)
	}
	refill := api.GoFunc(func(ctx context.Context, stack []uint64) {
		stack[0] = uint64(invocationOf(ctx).refill(int64(stack[0])))
	})
	builders[rewrite.ImportModule] = a.engine.NewHostModuleBuilder(rewrite.ImportModule)
	builders[rewrite.ImportModule].NewFunctionBuilder().
		WithGoFunction(refill, engineTypes(i64), engineTypes(i64)).Export(rewrite.ImportRefill)
	for name, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("host module %s: %w", name, err)
		}
	}
	return nil
}

func (a *artefact) close() {
	if a.err == nil {
		a.closeEngine()
		a.host.discarded(a.codeBytes)
	}
}

func (a *artefact) closeEngine() {
	// The engine gives back memory; it does not fail.
	if a.engine != nil {
		_ = a.engine.Close(context.Background())
	}
	if a.cache != nil {
		_ = a.cache.Close(context.Background())
	}
}
