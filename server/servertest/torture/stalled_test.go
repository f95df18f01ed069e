//go:build unix

package torture_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// fewEvents is what most of the stalled watchers read in the end: all would be much.
const fewEvents = 40

// stalledInPast is how many are stalled in the past, where the server reads from etcd for each.
const stalledInPast = 20

// newStalled returns the watchers that do not read until the faults are over: those that begin at what is new, with
// initial events, and in a past that the cache does not have.
func (r *run) newStalled() (out []*watcher) {
	past := 0
	for i := range r.stalled {
		w := &watcher{stream: stream{name: fmt.Sprintf("stalled %d", i)}, stalled: r.release, leaves: i%16 > 1}
		switch {
		case i%5 == 1:
			w.name, w.initial = fmt.Sprintf("stalled %d, initial", i), true
		case i%5 == 3 && past < stalledInPast:
			past++
			w.name, w.past = fmt.Sprintf("stalled %d, past", i), true
		}
		if i%4 == 0 {
			w.selector.side = "left"
		}
		out = append(out, w)
	}
	return out
}

// ballast is how many objects are there from the begin to the end, so that whoever is sent all gets much, also where
// little is written.
const ballast = 30

// prove notes, with the first connection, that a stalled watcher was held within the initial events, or in the past: the
// server had more of them than the connection takes in, or the connection was over before their end. it is the latest
// item, nil for the end of the connection.
func (w *watcher) prove(it *item, bytes int64) {
	if w.proved || w.breaks > 0 || w.taken == 0 || it != nil && bytes < 2*smallBuffer {
		return
	}
	over := it == nil
	switch {
	case w.initial && (over && w.last == 0 || !over && it.initialEnd):
		w.proved = true
		w.run.note(stalledInitial)
	case w.past && (over && w.last < w.run.admitted || !over && !it.bookmark && it.rv <= w.run.admitted):
		w.proved = true
		w.run.note(stalledPast)
	}
}

// stall has the stalled watchers begin after a third of the time, so that what the others get can be compared. Before
// that the server is restarted, so that its cache has nothing of the past. It takes longer where that takes long.
func stall(_ context.Context, r *run) {
	ctx := r.context
	weigh := func() {
		for _, s := range r.servers {
			r.marks["memory"] = max(r.marks["memory"], int64(s.memory()))
		}
	}
	w := &writer{id: writers + 2, client: r.client(0), run: r, random: r.source("ballast", 0)}
	defer w.client.close()
	for i := range ballast {
		w.do(&operation{client: w.id, kind: create, object: object{key: fmt.Sprintf("ballast-%d", i), value: fmt.Sprintf("ballast-%d", i), side: []string{"left", "left", "right"}[i%3]}})
	}
	measuring, measured := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { r.measureEtcd(measuring) })
	defer work.Wait()
	defer measured()
	pause(ctx, r.duration/3)
	weigh()
	for _, s := range r.servers {
		r.fault("kill %s", s.name)
		s.kill()
		r.restart(s)
		ready, cancel := context.WithTimeout(ctx, patience)
		if err := s.ready(ready); err != nil {
			r.t.Error(err)
		}
		cancel()
	}
	weigh()
	r.fault("%d watchers begin and do not read", r.stalled)
	r.marks["begin"] = r.now()
	r.admitted = r.operations.floor.Load()
	close(r.admit)
	all, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := eventually(all, 20*time.Millisecond, func(context.Context) error {
		if n := r.effects()[stalledWatches]; n < r.stalled*9/10 {
			return fmt.Errorf("%d watchers are stalled, want %d", n, r.stalled)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
	pause(ctx, r.duration/4)
	r.marks["stalled"] = r.now()
	for end := time.Now().Add(r.duration / 3); all.Err() == nil && (time.Now().Before(end) || r.writesSince("stalled") < fewWrites); {
		pause(ctx, 500*time.Millisecond)
		r.weigh()
	}
	r.marks["end"] = r.now()
}

// paced is a write to etcd itself, which no watcher of objects concerns.
type paced struct{ call, end int64 }

// measureEtcd notes how long etcd takes over a write, until ctx is done: what else the machine does falls on it too.
func (r *run) measureEtcd(ctx context.Context) {
	for ctx.Err() == nil {
		p := paced{call: r.now()}
		bounded, cancel := context.WithTimeout(ctx, requestTime)
		_, err := r.recorder.client.Put(bounded, "torture/pace", "")
		cancel()
		if p.end = r.now(); err == nil {
			r.paces = append(r.paces, p)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// unhurried is how long etcd may take over a write before the machine counts as busy.
const unhurried = 10 * time.Millisecond

// median sorts durations in nanoseconds, of which there is one at least.
func median(of []int64) time.Duration {
	slices.Sort(of)
	return time.Duration(of[len(of)/2])
}

// slower is how many times as long etcd took over a write with the stalled watchers as without, on a machine that had more
// to do meanwhile; 1 at least.
func (r *run) slower() float64 {
	var before, after []int64
	for _, p := range r.paces {
		switch {
		case p.end < r.marks["begin"]:
			before = append(before, p.end-p.call)
		case p.call > r.marks["stalled"] && p.end < r.marks["end"]:
			after = append(after, p.end-p.call)
		}
	}
	if len(before) == 0 || len(after) == 0 {
		return 1
	}
	return max(1, float64(max(unhurried, median(after)))/float64(max(unhurried, median(before))))
}

// fewWrites are enough to compare.
const fewWrites = 20

// writesSince counts the acknowledged writes that began after a mark.
func (r *run) writesSince(mark string) (n int) {
	r.operations.mu.Lock()
	defer r.operations.mu.Unlock()
	for _, op := range r.operations.list {
		if op.acknowledged() && op.call > r.marks[mark] {
			n++
		}
	}
	return n
}

// stalledMemory bounds what a stalled watcher may cost, in KiB: the buffers of its connection, and a share of the
// events that are kept for it. otherMemory is what a server may take more without any, as its rings fill.
const stalledMemory, otherMemory = 2048, 50 << 10

// allowed is how many KiB more a server may take with the stalled watchers. For those in the past, whatever their number,
// the etcd in it has what was written, for a moment, once for them all and once as garbage.
func (r *run) allowed() int64 {
	return int64(r.stalled)*stalledMemory + otherMemory + 2*r.written.Load()>>10
}

// checkStalled checks that others were not slowed and memory is bounded.
func checkStalled(r *run) {
	if more := r.peak.Load() - r.marks["memory"]; more<<10 > r.allowed() {
		r.t.Errorf("%d MiB more with %d stalled watchers, want %d at most", more, r.stalled, r.allowed()>>10)
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
	was, is, slower := median(before), median(after), r.slower()
	r.t.Logf("memory %d MiB without stalled watchers, %d with them; median of writes %s without them, %s with them, where etcd took %.1f times as long",
		r.marks["memory"], r.peak.Load(), was, is, slower)
	// The machine may be busy with other things now and then, hence the room.
	if is > time.Duration(slower*float64(4*was+100*time.Millisecond)) {
		r.t.Errorf("writes take %s beside stalled watchers, %s without", is, was)
	}
	for e, all := range map[effect]int{stalledInitial: r.stalled / 5, stalledPast: min(stalledInPast, r.stalled/5)} {
		// A watch may have been begun anew.
		if n := r.effects()[e]; n < all/2 {
			r.t.Errorf("%d %s, want %d", n, e, all/2)
		}
	}
	read := 0
	for _, w := range r.watchers {
		if w.stalled != nil && w.taken > 0 {
			read++
		}
	}
	if read < r.stalled {
		r.t.Errorf("%d of %d stalled watchers have read in the end", read, r.stalled)
	}
}
