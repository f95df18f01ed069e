//go:build unix

package torture_test

import (
	"context"
	"time"
)

// stall lets the stalled watchers not read; they have begun before the writers. In the last third of the time they
// are gone from memory's point of view only when the server has let go of what it holds for them.
func stall(ctx context.Context, r *run) {
	r.fault("%d watchers do not read", r.stalled)
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		for _, s := range r.servers {
			m := s.memory()
			r.peak = max(r.peak, m)
			if r.marks["early"] == 0 && r.now() > int64(r.duration/3) {
				r.marks["early"] = int64(m)
			}
			r.marks["late"] = int64(m)
		}
	}
}

// Bounds of the scenario: what 200 stalled watchers may cost.
const (
	stalledMemory = 1200 // MiB
	stalledDelay  = 2 * time.Second
)

// checkStalled checks that others were not slowed and memory is bounded.
func checkStalled(r *run) {
	r.t.Logf("memory early %d MiB, late %d MiB", r.marks["early"], r.marks["late"])
	if r.peak > stalledMemory {
		r.t.Errorf("%d MiB with %d stalled watchers, want at most %d", r.peak, r.stalled, stalledMemory)
	}
	var took []int64
	for _, op := range r.operations.all() {
		if op.acknowledged() {
			took = append(took, op.end-op.call)
		}
	}
	if p := percentile99(took); p > stalledDelay {
		r.t.Errorf("99 of 100 writes take up to %s", p)
	}
}
