package host

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"weir.dev/weir/abi"
)

// RaceEnabled tells whether the race detector is on.
const RaceEnabled = raceEnabled

// Lacks skips a test for want of what it needs, or fails it where CI is set.
func Lacks(t testing.TB, missing error) {
	t.Helper()
	lacks(t, missing)
}

// LentGuest is a guest that is out of its module's pool, as for a call.
type LentGuest struct {
	m *Module
	g *guest
}

// LendGuests takes guests out of a module's pool, all at once.
func LendGuests(t testing.TB, m *Module, n int) []LentGuest {
	t.Helper()
	lent := make([]LentGuest, n)
	for i := range lent {
		g, err := m.lend(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lent[i] = LentGuest{m, g}
	}
	return lent
}

// Return puts the guest back.
func (l LentGuest) Return() { l.m.pool.Put(l.g) }

// Closed tells whether the guest is closed and its memory given back.
func (l LentGuest) Closed() bool {
	if !l.g.instance.IsClosed() {
		return false
	}
	_, err := l.g.linear.Restore() // refused where there is no memory
	return err != nil
}

// Trims tells whether idle guests will be looked at.
func (r *Runtime) Trims() bool {
	r.janitor.mu.Lock()
	defer r.janitor.mu.Unlock()
	return r.janitor.timer != nil
}

// Answer is all that a guest gave the host in a call.
type Answer struct {
	Status abi.Status
	// What was written to the slots; nil: nothing was.
	Result, Object, Patch []byte
	// Failure of the call, with its class.
	Failure string
	Class   Class
	Lookups []Lookup
	Log     string
}

// Equal tells whether all of it is the same, byte for byte.
func (a Answer) Equal(b Answer) bool { return reflect.DeepEqual(a, b) }

// Rewritten runs a call as Module.Call does.
func Rewritten(t testing.TB, m *Module, call *Call) Answer {
	t.Helper()
	g, err := m.lend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := answer(t.Context(), m, g, call, m.state.elapsed)
	if a.Class == ClassDepth || g.reset(m.state) != nil {
		m.pool.Discard(g)
	} else {
		m.pool.Put(g)
	}
	return a
}

// Unmodified is a module whose guests are those of the original bytes, on the
// engine with nothing but the imports.
type Unmodified struct {
	m *Module
	a *artefact
}

// NewUnmodified is of the bytes that m was loaded from.
func NewUnmodified(t testing.TB, m *Module, wasm []byte) *Unmodified {
	t.Helper()
	return &Unmodified{m, bareArtefact(t, m.artefact.host, wasm)}
}

// Answer runs a call in a guest of its own, which nothing bounds.
func (u *Unmodified) Answer(t testing.TB, call *Call) Answer {
	t.Helper()
	g := bareGuest(t, u.a)
	defer g.close()
	m := &Module{artefact: u.m.artefact, config: u.m.config, settings: u.m.settings} // which the guest describes
	elapsed, err := m.setUp(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.manifest, u.m.manifest) {
		t.Errorf("unmodified it describes itself as %+v, rewritten as %+v", m.manifest, u.m.manifest)
	}
	return answer(t.Context(), m, g, call, elapsed)
}

func answer(ctx context.Context, m *Module, g *guest, call *Call, elapsed time.Duration) Answer {
	var log bytes.Buffer
	c := m.invocation(ctx, call, m.settings)
	c.elapsed = elapsed
	c.logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	status, err := g.enter(c, g.invoke, uint64(call.Op))
	a := Answer{
		Status: status, Lookups: c.look.found, Log: log.String(),
		Result: c.output(abi.SlotResult).data, Object: c.output(abi.SlotObjectOut).data, Patch: c.output(abi.SlotPatch).data,
	}
	if err == nil {
		_, err = c.result(status, call)
	}
	if err != nil {
		a.Failure, a.Class = err.Message, err.Class
	}
	return a
}
