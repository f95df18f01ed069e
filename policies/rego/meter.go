package rego

import (
	"context"
	"fmt"
	"time"

	"github.com/open-policy-agent/opa/v1/topdown"

	"weir.dev/weir/policies"
)

const (
	// lookEvery is the number of steps after which a meter looks at the clock, or more
	// often when steps take long: one may search a long list.
	lookEvery = 4
	// stepsTake is what lookEvery steps may take.
	stepsTake = time.Millisecond
	// maxAllocBytes bounds what guarded functions may make in an evaluation.
	maxAllocBytes = 32 << 20
	// stepBytes is how much a function reads or makes for the price of a step.
	stepBytes = 256
)

// meter counts the steps of an evaluation and stops it. The evaluator asks it before each
// expression whether it was cancelled.
type meter struct {
	ctx       context.Context //nolint:containedctx // of the evaluation, with which the meter ends
	path      string
	used      uint64
	look      uint64 // used, when something must be looked at
	limit     uint64
	allocated uint64
	looked    time.Time
	timeout   time.Duration
	deadline  time.Time
	err       error // why it was stopped
}

var _ topdown.Cancel = (*meter)(nil)

func newMeter(ctx context.Context, c Config, path string) *meter {
	now := time.Now()
	return &meter{ctx: ctx, path: path, limit: c.StepLimit, look: min(lookEvery, c.StepLimit), looked: now, timeout: c.Timeout, deadline: now.Add(c.Timeout)}
}

// Cancel implements topdown.Cancel. Nobody calls it.
func (*meter) Cancel() {}

// Cancelled implements topdown.Cancel: it is one step.
func (m *meter) Cancelled() bool {
	m.used++
	return m.used > m.look && m.stop() != nil
}

// stop looks whether the evaluation must stop.
func (m *meter) stop() error {
	if m.err != nil {
		return m.err
	}
	now := time.Now()
	switch {
	case m.used > m.limit:
		m.err = &policies.CostError{Path: m.path, Used: m.used, Limit: m.limit}
	case m.ctx.Err() != nil:
		m.err = fmt.Errorf("%s: %w", m.path, context.Cause(m.ctx))
	case now.After(m.deadline):
		m.err = fmt.Errorf("%s: not done after %d of at most %d steps and %v: %w", m.path, m.used, m.limit, m.timeout, context.DeadlineExceeded)
	default:
		m.look = m.used
		if now.Sub(m.looked) < stepsTake {
			m.look = min(m.used+lookEvery, m.limit)
		}
		m.looked = now
	}
	return m.err
}

// fail stops the evaluation for a reason of its own.
func (m *meter) fail(format string, args ...any) error {
	if m.err == nil {
		m.err = &policies.EvalError{Path: m.path, Err: fmt.Errorf(format, args...)}
		m.look = 0
	}
	return m.err
}

// charge accounts for a function that reads and makes so many bytes.
func (m *meter) charge(name string, read, made uint64) error {
	m.used += read/stepBytes + made/stepBytes
	m.allocated += made
	if m.allocated > maxAllocBytes {
		return m.fail("%s: results take more than %d MiB", name, maxAllocBytes>>20)
	}
	if m.used > m.look {
		return m.stop()
	}
	return nil
}
