package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host/internal/pool"
)

// loadFactor is how many times a call's fuel and time loading may use.
const loadFactor = 10

// Module is a loaded module with its settings. It is safe for concurrent
// use. It is reference-counted: Load gives the caller one reference, which
// Close gives up; a request that pins a module takes one with Acquire.
type Module struct {
	artefact *artefact
	config   ModuleConfig
	settings *document.Document
	manifest abi.Manifest
	ops      abi.OpSet
	state    *state // nil if the module is not resettable
	pool     *pool.Pool[*guest]
	series   [32]atomic.Pointer[series] // by hook
	restores restores

	mu      sync.Mutex
	refs    int           // guarded by mu
	closed  bool          // guarded by mu; Close was called
	drained chan struct{} // closed when everything was given back
}

// Name is the name the module was loaded under.
func (m *Module) Name() string { return m.config.Name }

// Digest is the digest of the bytes that were loaded: sha256:<hex>.
func (m *Module) Digest() string { return m.artefact.digest }

// Manifest is how the module describes itself. The caller must not change it.
func (m *Module) Manifest() abi.Manifest { return m.manifest }

// Handles tells whether the module implements a hook.
func (m *Module) Handles(op abi.Op) bool { return m.ops.Has(op) }

// Limits are the limits in force.
func (m *Module) Limits() Limits { return m.config.Limits }

// newModule makes a module of an artefact, whose reference it takes over if
// it succeeds.
func newModule(ctx context.Context, a *artefact, config ModuleConfig) (*Module, error) {
	m := &Module{artefact: a, config: config, refs: 1, drained: make(chan struct{})}
	if len(config.Settings) > 0 {
		d, err := document.Parse(config.Settings)
		if err != nil {
			return nil, &Error{Class: ClassNotReady, Message: "settings: " + err.Error(), Err: err}
		}
		m.settings = d
	}
	g, elapsed, err := m.freshGuest(ctx)
	if err != nil {
		return nil, err
	}
	if !a.resettable {
		g.close()
		m.pool = pool.New(a.host.config.Guests, func(ctx context.Context) (*guest, error) {
			g, _, err := m.freshGuest(ctx)
			return g, err
		}, (*guest).close)
		return m, nil
	}
	err = m.captureWarm(ctx, g, elapsed)
	g.close()
	if err != nil {
		return nil, fmt.Errorf("capture its state: %w", err)
	}
	m.pool = pool.New(a.host.config.Guests, m.guestFromState, (*guest).close)
	if g, err = m.pool.Get(ctx); err != nil {
		_ = m.state.image.Close()
		return nil, err
	}
	m.pool.Put(g)
	return m, nil
}

// freshGuest makes a guest that is initialised and configured. It describes
// itself the first time.
func (m *Module) freshGuest(ctx context.Context) (*guest, time.Duration, error) {
	g, err := m.artefact.newGuest(ctx)
	if err != nil {
		return nil, 0, err
	}
	elapsed, err := m.setUp(ctx, g)
	if err != nil {
		g.close()
		return nil, 0, err
	}
	return g, elapsed, nil
}

// setUp initialises, describes and configures a guest.
func (m *Module) setUp(ctx context.Context, g *guest) (time.Duration, error) {
	c := m.invocation(ctx, &Call{}, nil)
	c.look.loading = true
	c.limit *= loadFactor
	c.deadline = c.now().Add(loadFactor * m.config.Limits.Timeout)
	if err := g.initialize(c); err != nil {
		return 0, err
	}
	if m.ops == 0 {
		if err := m.describe(g, c); err != nil {
			return 0, err
		}
		if err := m.checkGrants(); err != nil {
			return 0, err
		}
	}
	if m.ops.Has(abi.OpConfigure) {
		if err := m.configure(g, c); err != nil {
			return 0, err
		}
	}
	return c.elapsed, nil
}

func (m *Module) describe(g *guest, c *invocation) error {
	status, ferr := g.enter(c, g.describe, 0)
	if ferr != nil {
		ferr.Message = "describe: " + ferr.Message
		return ferr
	}
	bad := func(class Class, format string, args ...any) error {
		return &Error{Class: class, Message: "manifest: " + fmt.Sprintf(format, args...)}
	}
	if c.refused != "" {
		return bad(ClassBadOutput, "%s", c.refused)
	}
	if status != abi.StatusOK {
		return bad(ClassBadOutput, "describe returned %d", status)
	}
	if err := json.Unmarshal(c.output(abi.SlotManifest).data, &m.manifest); err != nil {
		return bad(ClassBadOutput, "%v", err)
	}
	if m.manifest.Name == "" {
		return bad(ClassBadOutput, "no name")
	}
	ops, unknown := m.manifest.OpSet()
	if unknown != "" {
		return bad(ClassABIMismatch, "hook %q does not exist", unknown)
	}
	if ops == 0 {
		return bad(ClassABIMismatch, "no hooks")
	}
	if err := m.checkCapabilities(); err != nil {
		return err
	}
	m.ops = ops
	return nil
}

// maxSettingsErrors bounds what is told of settings that are refused.
const maxSettingsErrors = 8

func (m *Module) configure(g *guest, c *invocation) error {
	c.op = abi.OpConfigure
	c.inputs[abi.SlotSettings] = m.settings
	c.outputs = [len(c.outputs)]output{}
	status, ferr := g.enter(c, g.invoke, uint64(abi.OpConfigure))
	var res *Result
	if ferr == nil {
		res, ferr = c.result(status, &Call{Op: abi.OpConfigure})
	}
	if ferr != nil {
		return ferr
	}
	refused := func(msg string) error {
		return &Error{Op: abi.OpConfigure, Class: ClassNotReady, Message: "settings refused: " + msg}
	}
	if res.Denied != nil {
		return refused(res.Denied.Message)
	}
	if len(res.Errors) > 0 {
		var texts []string
		for i, e := range res.Errors {
			if i == maxSettingsErrors {
				texts = append(texts, fmt.Sprintf("and %d more", len(res.Errors)-i))
				break
			}
			texts = append(texts, fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail))
		}
		return refused(strings.Join(texts, "; "))
	}
	return nil
}

// captureWarm warms a guest and captures its state: that after the last warm
// call that did not end in a trap.
func (m *Module) captureWarm(ctx context.Context, g *guest, elapsed time.Duration) error {
	var err error
	if m.state, err = g.capture(elapsed); err != nil {
		return err
	}
	warm := m.config.Warm
	if warm == nil {
		warm = m.warmCalls()
	}
	for _, call := range warm {
		if !m.Handles(call.Op) || call.Op == abi.OpConfigure {
			continue
		}
		if err := m.warm(ctx, g, call); err != nil {
			_ = m.state.image.Close()
			return err
		}
	}
	return nil
}

// warm runs a call and keeps what became of the guest, if it is sound.
func (m *Module) warm(ctx context.Context, g *guest, call *Call) error {
	if err := g.attach(m.state); err != nil {
		return err
	}
	c := m.invocation(ctx, call, m.settings)
	c.logger, c.look.loading = nil, true
	if _, ferr := g.enter(c, g.invoke, uint64(call.Op)); ferr != nil {
		return g.reset(m.state)
	}
	next, err := g.capture(c.elapsed)
	if err != nil {
		return err
	}
	g.resetGlobals(next)
	old := m.state
	m.state = next
	if err := g.attach(next); err != nil {
		return err
	}
	return old.image.Close()
}

// warmCalls are one call of each hook that is usual, with what every object
// has.
func (m *Module) warmCalls() []*Call {
	object := document.FromCanonical([]byte(`{"apiVersion":"v1","kind":"Warm","metadata":{"name":"warm","namespace":"warm","uid":"warm"}}`))
	options := document.FromCanonical([]byte(`{}`))
	meta, err := NewMeta(abi.Meta{UID: "warm", Time: "1970-01-01T00:00:00Z", Version: "v1", Kind: "Warm", Resource: "warms", Namespace: "warm", Name: "warm"})
	if err != nil {
		return nil
	}
	budget := NewBudget(m.config.Limits.Fuel, time.Time{})
	var calls []*Call
	for _, op := range abi.Ops() {
		switch op {
		case abi.OpConfigure, abi.OpConvert, abi.OpConnect:
			continue
		}
		if m.Handles(op) {
			calls = append(calls, &Call{Op: op, Meta: meta, Object: object, OldObject: object, Options: options, Budget: budget})
		}
	}
	return calls
}

// guestFromState makes a guest that stands where the captured one stood.
func (m *Module) guestFromState(ctx context.Context) (*guest, error) {
	g, err := m.artefact.newGuest(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.attach(m.state); err != nil {
		g.close()
		return nil, err
	}
	m.artefact.host.guestMade()
	return g, nil
}

func (m *Module) invocation(ctx context.Context, call *Call, settings *document.Document) *invocation {
	c := &invocation{}
	m.begin(c, ctx, call, m.artefact.host.config.Now())
	c.setInputs(call, settings)
	return c
}

// begin makes c, which is zero, an invocation without inputs, made at a time.
func (m *Module) begin(c *invocation, ctx context.Context, call *Call, at time.Time) {
	limits := m.config.Limits
	allowance := limits.allowance(call)
	c.Context, c.at, c.now = ctx, at, m.artefact.host.config.Now
	c.op, c.budget, c.trace = call.Op, call.Budget, call.Trace
	c.late = call.Late
	c.limit, c.allowance = int64(limits.Fuel)+allowance, allowance
	c.logger = m.config.Logger
	c.look.capabilities, c.look.objects, c.look.authorizer = m.manifest.Capabilities, m.config.Lookuper, m.config.Authorizer
	if call.Lookuper != nil {
		c.look.objects = call.Lookuper
	}
	if call.Authorizer != nil {
		c.look.authorizer = call.Authorizer
	}
	if m.state != nil {
		c.elapsed = m.state.elapsed
	}
	c.deadline = at.Add(limits.Timeout)
	if b := call.Budget; b != nil {
		usual := m.artefact.host.config.Limits
		if limits.Fuel > usual.Fuel {
			b.widen(limits.Fuel)
		}
		if !b.deadline.IsZero() && b.deadline.Before(c.deadline) && limits.Timeout <= usual.Timeout {
			c.deadline = b.deadline
		}
	}
}

// Call runs a hook in a guest. It waits while all guests are busy, until the
// context ends. Who holds a reference may call a closed module too. An error is an [Error] and says nothing about the object:
// whether the request goes on without the guest is the caller's policy.
func (m *Module) Call(ctx context.Context, call *Call) (*Result, error) {
	if !m.retain() {
		return nil, &Error{Module: m.config.Name, Op: call.Op, Class: ClassNotReady, Message: "the module is closed"}
	}
	defer m.Release()
	now := m.artefact.host.config.Now
	start := now()
	res, err := m.call(ctx, call, start)
	d := now().Sub(start)
	if err != nil {
		err.Module, err.Op = m.config.Name, call.Op
		m.count(call.Op, err.Class, d, err.Fuel)
		return nil, err
	}
	m.count(call.Op, 0, d, res.Fuel)
	return res, nil
}

// count counts a call.
func (m *Module) count(op abi.Op, class Class, d time.Duration, fuel uint64) {
	all := m.artefact.host.metrics
	if all == nil {
		return
	}
	s := (*series)(nil)
	if at := int(op); at >= 0 && at < len(m.series) {
		if s = m.series[at].Load(); s == nil {
			s = all.series(m.config.Name, op)
			m.series[at].Store(s)
		}
	} else { // there is no such hook
		s = all.series(m.config.Name, op)
	}
	all.called(s, class, d, fuel)
}

// lend takes a guest from the pool.
func (m *Module) lend(ctx context.Context) (*guest, *Error) {
	g, err := m.pool.Get(ctx)
	if err == nil {
		return g, nil
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return nil, e
	case ctx.Err() != nil:
		return nil, &Error{Class: ClassDeadline, Message: "waiting for a guest: " + err.Error(), Err: err}
	}
	return nil, &Error{Class: ClassNotReady, Message: err.Error(), Err: err}
}

func (m *Module) call(ctx context.Context, call *Call, at time.Time) (*Result, *Error) {
	if !m.Handles(call.Op) || call.Op == abi.OpConfigure {
		return nil, &Error{Class: ClassABIMismatch, Message: "the module has no such hook"}
	}
	g, ok := m.pool.TryGet()
	if !ok {
		var err *Error
		if g, err = m.lend(ctx); err != nil {
			return nil, err
		}
		at = m.artefact.host.config.Now() // waiting does not count
	}
	c := &g.call
	m.begin(c, ctx, call, at)
	c.setInputs(call, m.settings)
	status, ferr := g.enter(c, g.invoke, uint64(call.Op))
	restored := -1
	// A stack that was enlarged stays with its guest.
	discard := m.state == nil || ferr != nil && ferr.Class == ClassDepth || g.reset(m.state) != nil
	if !discard {
		restored = g.linear.Restored()
		m.restores.add(restored)
	}
	var res *Result
	if ferr == nil {
		res, ferr = c.result(status, call)
	}
	if ferr != nil {
		ferr.Lookups = c.look.found
	} else {
		res.Lookups, res.RestoredBytes = c.look.found, restored
	}
	*c = invocation{}
	if discard {
		m.pool.Discard(g)
	} else {
		m.pool.Put(g)
	}
	return res, ferr
}

// Acquire takes a reference. It is false once the module is closed.
func (m *Module) Acquire() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.refs++
	return true
}

// retain takes a reference for a call. It is false once nobody holds the
// module, closed or not: a request that acquired it calls it to its end.
func (m *Module) retain() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refs == 0 {
		return false
	}
	m.refs++
	return true
}

// Release gives a reference back. The last one frees the module.
func (m *Module) Release() {
	m.mu.Lock()
	m.refs--
	last := m.refs == 0
	m.mu.Unlock()
	if last {
		m.free()
	}
}

// Close gives up the loader's reference and waits until the last one is
// gone, or the context ends: then the module is freed later, with it. No new
// reference is possible from now on; those who hold one may still call.
func (m *Module) Close(ctx context.Context) error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if first {
		m.Release()
	}
	select {
	case <-m.drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("module[%s]: drain: %w", m.config.Name, context.Cause(ctx))
	}
}

// free gives everything back.
func (m *Module) free() {
	m.pool.Close()
	if m.state != nil {
		_ = m.state.image.Close()
	}
	m.artefact.host.forget(m)
	m.artefact.host.release(m.artefact)
	close(m.drained)
}
