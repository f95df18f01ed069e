//go:build unix

package torture_test

import (
	"context"
	"slices"
	"time"
)

// stall has the stalled watchers begin after a third of the time, so that what the others get can be compared.
func stall(ctx context.Context, r *run) {
	pause(ctx, r.duration/3)
	r.fault("%d watchers begin and do not read", r.stalled)
	r.marks["begin"] = r.now()
	for _, s := range r.servers {
		r.marks["memory"] = max(r.marks["memory"], int64(s.memory()))
	}
	close(r.admit)
	pause(ctx, r.duration/3)
	r.marks["stalled"] = r.now()
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		r.weigh()
	}
	r.marks["end"] = r.now()
}

// stalledMemory bounds what a stalled watcher may cost, in KiB: the buffers of its connection, and a share of the
// events that are kept for it.
const stalledMemory = 2048

// checkStalled checks that others were not slowed and memory is bounded.
func checkStalled(r *run) {
	if more := r.peak.Load() - r.marks["memory"]; more*1024 > int64(r.stalled*stalledMemory) {
		r.t.Errorf("%d MiB more with %d stalled watchers", more, r.stalled)
	}
	var before, after []int64
	for _, op := range r.operations.all() {
		switch took := op.end - op.call; {
		case !op.acknowledged():
		case op.end < r.marks["begin"]:
			before = append(before, took)
		case op.call > r.marks["stalled"] && op.end < r.marks["end"]:
			after = append(after, took)
		}
	}
	if len(before) == 0 || len(after) == 0 {
		r.t.Fatal("no writes to compare")
	}
	slices.Sort(before)
	slices.Sort(after)
	was, is := time.Duration(before[len(before)/2]), time.Duration(after[len(after)/2])
	r.t.Logf("memory %d MiB without stalled watchers, %d with them; median of writes %s without them, %s with them", r.marks["memory"], r.peak.Load(), was, is)
	// The machine may be busy with other things now and then, hence the room.
	if is > 4*was+100*time.Millisecond {
		r.t.Errorf("writes take %s beside stalled watchers, %s without", is, was)
	}
	if n := r.effects()[stalledWatches]; n < r.stalled*9/10 {
		r.t.Errorf("%d watchers were stalled, want %d", n, r.stalled)
	}
	narrow := 0
	for _, w := range r.watchers {
		if w.left {
			narrow++
		}
	}
	if narrow == 0 {
		r.t.Error("no watcher was stalled to the end")
	}
}
