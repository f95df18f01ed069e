package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
)

// sliceFuel is how much a guest may run between two looks at the clock and
// the scheduler: some 50 µs, 10 ms if it does nothing but miss the caches.
const sliceFuel = 500_000

// Fuel of imports, in proportion to what they cost the host.
const (
	importFuel   = 50 // a crossing
	bytesPerFuel = 16 // of what is copied or scanned
	stderrKept   = 256
)

// stop is what the host panics with to unwind a guest; the engine returns it
// as the error of the call.
type stop struct {
	class Class
	msg   string
	err   error
}

func (s *stop) Error() string { return s.msg }
func (s *stop) Unwrap() error { return s.err }

// output is an output slot.
type output struct {
	data    []byte
	written bool
}

// invocation is the state of one entry into a guest. It is the context of
// that entry, so that imports find it.
type invocation struct {
	context.Context // of the request
	guest           *guest
	op              abi.Op // 0 in describe and start
	inputs          [abi.InputSlots]*document.Document
	outputs         [4]output // by slot - abi.SlotResult
	refused         string    // why a write was refused
	late            func(context.Context, abi.Slot) (*document.Document, error)
	isLate          [abi.InputSlots]bool // late has been asked

	budget    *Budget
	limit     int64 // fuel of this entry
	allowance int64 // how much of it does not count against the budget
	used      int64 // not counting the slice that is running
	granted   int64 // of the slice that is running
	pending   int64 // charged by imports, and not yet taken from the slice
	deadline  time.Time
	at        time.Time // when it was made; zero once it has run
	now       func() time.Time

	trace   func(ImportCall)
	logger  *slog.Logger
	logged  int // bytes
	entries int // of the log
	look    looker
	stderr  []byte        // the beginning, for messages
	lines   [2][]byte     // of standard output and error, not yet ended
	elapsed time.Duration // how far the guest's clock was advanced by waiting
	random  *rand.ChaCha8
	wall    time.Time // of the request, once it was asked for
	hasWall bool
}

type invocationKey struct{}

// Value implements context.Context.
func (c *invocation) Value(key any) any {
	if _, ok := key.(invocationKey); ok {
		return c
	}
	return c.Context.Value(key)
}

func invocationOf(ctx context.Context) *invocation {
	if c, ok := ctx.(*invocation); ok {
		return c
	}
	return ctx.Value(invocationKey{}).(*invocation)
}

// grant returns the fuel of the next slice, or what stops the guest.
func (c *invocation) grant() (int64, *stop) {
	left := c.limit - c.used
	if left <= 0 {
		return 0, &stop{class: ClassFuel, msg: fmt.Sprintf("fuel exhausted after %d units", c.limit)}
	}
	if c.budget != nil {
		shared := c.budget.left.Load() + max(0, c.allowance-c.used)
		if shared <= 0 {
			return 0, &stop{class: ClassFuel, msg: fmt.Sprintf("the request's fuel is exhausted, %d units of it here", c.used)}
		}
		left = min(left, shared)
	}
	if err := c.Context.Err(); err != nil {
		return 0, &stop{class: ClassDeadline, msg: fmt.Sprintf("stopped after %d units of fuel: %v", c.used, context.Cause(c.Context)), err: err}
	}
	at := c.at
	if at.IsZero() {
		at = c.now()
	}
	c.at = time.Time{}
	if !c.deadline.IsZero() && !at.Before(c.deadline) {
		return 0, &stop{class: ClassDeadline, msg: fmt.Sprintf("deadline exceeded after %d units of fuel", c.used), err: context.DeadlineExceeded}
	}
	c.granted = min(left, sliceFuel)
	return c.granted, nil
}

// settle accounts for the slice of which left is in the guest's global.
func (c *invocation) settle(left int64) {
	spent := c.granted - left + c.pending
	c.granted, c.pending = 0, 0
	free := min(spent, max(0, c.allowance-c.used))
	c.used += spent
	if c.budget != nil {
		c.budget.take(spent - free)
	}
}

// refill is called by a guest whose slice is used up.
func (c *invocation) refill(left int64) int64 {
	c.settle(left)
	// Guest code cannot be preempted: this is where everyone else runs.
	runtime.Gosched()
	fuel, s := c.grant()
	if s != nil {
		// What is in the global was accounted for.
		c.guest.fuel.Set(0)
		panic(s)
	}
	return fuel
}

// spent is all the fuel that was used, of the slice that is running too.
func (c *invocation) spent() int64 {
	return c.used + c.granted - int64(c.guest.fuel.Get()) + c.pending
}

// charge takes fuel for what an import does: test takes it from the slice.
func (c *invocation) charge(units int) { c.pending += int64(units) }

// test does after an import what a guest does in its loops: a guest may call
// imports a million times in straight code, which tests nothing.
func (c *invocation) test() {
	f := c.guest.fuel
	left := int64(f.Get()) - c.pending
	if left < 0 {
		left = c.refill(left + c.pending)
	}
	c.pending = 0
	f.Set(uint64(left))
}

// time is the guest's wall clock.
func (c *invocation) time() time.Time {
	if !c.hasWall {
		c.hasWall = true
		c.wall = time.Unix(0, 0)
		if meta := c.inputOf(abi.SlotMeta); meta != nil {
			if t, err := time.Parse(time.RFC3339Nano, meta.Get("time").String()); err == nil {
				c.wall = t
			}
		}
	}
	return c.wall.Add(c.elapsed)
}

// randomSource is seeded from the module and the request, so that a request
// that is replayed sees the same numbers.
func (c *invocation) randomSource() *rand.ChaCha8 {
	if c.random == nil {
		h := sha256.New()
		h.Write([]byte("weir random\x00"))
		h.Write([]byte(c.guest.artefact.digest))
		if meta := c.inputOf(abi.SlotMeta); meta != nil {
			h.Write([]byte{0})
			h.Write([]byte(meta.Get("uid").String()))
		}
		c.random = rand.NewChaCha8([32]byte(h.Sum(nil)))
	}
	return c.random
}

// log passes a line on, within the limits, and returns how much was kept.
func (c *invocation) log(level slog.Level, line []byte) int {
	if c.entries == abi.MaxLogLines {
		return 0
	}
	line = line[:min(len(line), abi.MaxLogLineBytes, max(0, abi.MaxLogBytes-c.logged))]
	c.logged += len(line)
	c.entries++
	if c.logger != nil && len(line) > 0 {
		hook := "load"
		if c.op != 0 {
			hook = c.op.String()
		}
		c.logger.LogAttrs(c.Context, level, "guest log", slog.String("hook", hook), slog.String("line", string(line)))
	}
	return len(line)
}

// inputOf is what is in an input slot; nil: nothing.
func (c *invocation) inputOf(slot abi.Slot) *document.Document {
	if c.inputs[slot] == nil && c.late != nil && !c.isLate[slot] {
		switch slot {
		case abi.SlotMeta, abi.SlotOptions, abi.SlotNamespace:
			c.fill(slot)
		}
	}
	return c.inputs[slot]
}

// fill asks for what is in a slot, once.
func (c *invocation) fill(slot abi.Slot) {
	c.isLate[slot] = true
	ctx := c.Context
	if slot == abi.SlotNamespace { // it is read from somewhere
		limited, cancel := c.untilDeadline()
		defer cancel()
		ctx = limited
	}
	d, err := c.late(ctx, slot)
	if err != nil {
		c.notReady(slot.String()+" cannot be read now", err)
	}
	c.inputs[slot] = d
}

// mayWrite tells whether an output slot may be written in this entry.
func (c *invocation) mayWrite(slot abi.Slot) bool {
	switch slot {
	case abi.SlotManifest:
		return c.op == 0
	case abi.SlotObjectOut:
		return c.op.Mutates()
	case abi.SlotPatch:
		return c.op.AcceptsPatch()
	case abi.SlotResult:
		return true
	}
	return false
}

func (c *invocation) output(slot abi.Slot) *output { return &c.outputs[slot-abi.SlotResult] }
