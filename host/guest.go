package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/snapshot"
)

// guest is one instance of a module. It serves one invocation at a time.
type guest struct {
	artefact *artefact
	instance api.Module
	memory   api.Memory
	linear   snapshot.Memory
	invoke   api.Function
	describe api.Function
	fuel     api.MutableGlobal
	flag     api.MutableGlobal
	depth    api.MutableGlobal
	globals  []api.MutableGlobal

	scratch []byte               // of imports
	paths   map[string]queryPath // parsed, as guests ask the same again
	stack   [1]uint64
	call    invocation // of the call that is running, of which nothing outlives it
}

// state is what a guest returns to after each call.
type state struct {
	image   *snapshot.Image
	globals []uint64
	elapsed time.Duration // of the guest's clock
}

// maxPaths bounds the cache of parsed paths of a guest.
const maxPaths = 256

// path parses a query's path.
func (g *guest) path(text []byte) (queryPath, error) {
	if p, ok := g.paths[string(text)]; ok {
		return p, nil
	}
	p, err := parseQuery(string(text))
	if err != nil {
		return p, err
	}
	if len(g.paths) < maxPaths {
		g.paths[string(text)] = p
	}
	return p, nil
}

// newGuest instantiates an artefact. Nothing of the guest has run yet.
func (a *artefact) newGuest(ctx context.Context) (*guest, error) {
	g := &guest{artefact: a, paths: map[string]queryPath{}}
	var merr error
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, most uint64) experimental.LinearMemory {
		// The last page is declared for shrinking only.
		g.linear, merr = a.host.snapshots.NewMemory(most - 64<<10)
		if merr != nil {
			g.linear = snapshot.NewHeapMemory(most - 64<<10)
		}
		return g.linear
	}))
	instance, err := a.engine.InstantiateModule(ctx, a.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return nil, fmt.Errorf("instantiate: %w", err)
	}
	g.instance = instance
	g.memory = instance.ExportedMemory(abi.ExportMemory)
	g.invoke = instance.ExportedFunction(abi.ExportInvoke)
	g.describe = instance.ExportedFunction(abi.ExportDescribe)
	global := func(name string) api.MutableGlobal {
		m, ok := instance.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			merr = fmt.Errorf("global %s is missing", name)
		}
		return m
	}
	g.fuel = global(rewrite.ExportFuel)
	g.flag = global(rewrite.ExportFlag)
	g.depth = global(rewrite.ExportDepth)
	for _, name := range a.globals {
		g.globals = append(g.globals, global(name))
	}
	if merr != nil {
		g.close()
		return nil, fmt.Errorf("instantiate: %w", merr)
	}
	return g, nil
}

func (g *guest) close() {
	// Closing an instance fails for none of the reasons a guest can cause.
	_ = g.instance.Close(context.Background())
}

// capture remembers what the guest has become.
func (g *guest) capture(elapsed time.Duration) (*state, error) {
	mem, _ := g.memory.Read(0, g.memory.Size())
	img, err := g.artefact.host.snapshots.Capture(mem)
	if err != nil {
		return nil, err
	}
	s := &state{image: img, elapsed: elapsed}
	for _, gl := range g.globals {
		s.globals = append(s.globals, gl.Get())
	}
	return s, nil
}

// attach makes a fresh guest what was captured.
func (g *guest) attach(s *state) error {
	const page = 64 << 10
	have, want := int(g.memory.Size()), s.image.Len()
	if have < want {
		if _, ok := g.memory.Grow(uint32((want - have) / page)); !ok {
			return errors.New("grow memory to its captured size")
		}
	}
	if err := g.linear.Attach(s.image); err != nil {
		return err
	}
	g.resetGlobals(s)
	return nil
}

// reset makes a guest what was captured, whatever became of it. If it fails
// the guest must be closed.
func (g *guest) reset(s *state) error {
	moved, err := g.linear.Restore()
	if err != nil {
		return err
	}
	if moved { // growing is how the engine asks for its memory
		if _, ok := g.memory.Grow(1); !ok || int(g.memory.Size()) != s.image.Len() {
			return errors.New("memory is not where it was put")
		}
	}
	g.resetGlobals(s)
	return nil
}

func (g *guest) resetGlobals(s *state) {
	for i, gl := range g.globals {
		gl.Set(s.globals[i])
	}
	g.fuel.Set(0)
	g.flag.Set(0)
	g.depth.Set(0)
}

// enter runs an exported function of the guest under an invocation. What the
// function returns is 0 if it has no result.
func (g *guest) enter(c *invocation, fn api.Function, param uint64) (abi.Status, *Error) {
	c.guest = g
	fuel, s := c.grant()
	if s != nil {
		return 0, &Error{Op: c.op, Class: s.class, Message: s.msg, Err: s.err, Fuel: uint64(c.used)}
	}
	g.fuel.Set(uint64(fuel))
	g.stack[0] = param
	err := fn.CallWithStack(c, g.stack[:])
	status := abi.Status(int32(uint32(g.stack[0])))
	if c.granted != 0 { // else it was stopped in refill
		c.settle(int64(g.fuel.Get()))
	}
	c.flushStdio(1)
	c.flushStdio(2)
	if err != nil {
		e := g.failure(c, err)
		e.Op, e.Fuel = c.op, uint64(c.used)
		return 0, e
	}
	return status, nil
}

// failure classifies what the engine returned.
func (g *guest) failure(c *invocation, err error) *Error {
	text, trace, _ := strings.Cut(err.Error(), "\nwasm stack trace:")
	text = strings.TrimPrefix(text, "wasm error: ")
	e := &Error{Class: ClassTrap, Message: "trap: " + text, Trace: strings.TrimSpace(trace), Err: err}
	var s *stop
	switch {
	case g.flag.Get() == rewrite.FlagDepth:
		e.Class, e.Message = ClassDepth, fmt.Sprintf("calls nested deeper than %d", g.artefact.limits.Depth)
	case errors.As(err, &s) && s.class != ClassTrap:
		e.Class, e.Message = s.class, s.msg
	case strings.Contains(text, "stack overflow"):
		e.Class, e.Message = ClassDepth, "the call stack is exhausted"
	case g.flag.Get() == rewrite.FlagMemory:
		e.Class, e.Message = ClassMemory, fmt.Sprintf("wants more than %d KiB of memory", g.artefact.limits.MemoryBytes/1024)
	case s != nil:
		e.Message = "trap: " + s.msg
	}
	if e.Class == ClassTrap && len(c.stderr) > 0 {
		first, _, _ := strings.Cut(strings.TrimSpace(string(c.stderr)), "\n")
		e.Message += ": " + strings.ToValidUTF8(first, "?")
	}
	return e
}

// initialize runs what a module runs once.
func (g *guest) initialize(c *invocation) *Error {
	for _, name := range []string{rewrite.ExportStart, abi.ExportInitialize} {
		fn := g.instance.ExportedFunction(name)
		if fn == nil {
			continue
		}
		if _, err := g.enter(c, fn, 0); err != nil {
			err.Message = "initialisation: " + err.Message
			return err
		}
	}
	return nil
}

// inputs fills the input slots of a call.
func (c *invocation) setInputs(call *Call, settings *document.Document) {
	c.inputs = [abi.InputSlots]*document.Document{
		abi.SlotMeta:      call.Meta,
		abi.SlotObject:    call.Object,
		abi.SlotOldObject: call.OldObject,
		abi.SlotOptions:   call.Options,
		abi.SlotSettings:  settings,
		abi.SlotParams:    call.Params,
		abi.SlotNamespace: call.Namespace,
	}
	if call.TargetVersion != "" {
		if d, err := document.FromValue(call.TargetVersion); err == nil {
			c.inputs[abi.SlotTargetVersion] = d
		}
	}
}
