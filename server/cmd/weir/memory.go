package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The heap may grow by headroom, and a part of what lives, between two collections. Go's own rule, by as much as
// lives, would keep a second copy's worth of memory for rows that stay where they are and cost a collection nothing:
// they hold no pointers. A small heap, of a server at rest, would on the other hand be collected all the time under
// load.
const (
	headroom     = 32 << 20
	headroomPart = 8
	// minLive is what the runtime takes a heap to be at least.
	minLive = 4 << 20
	// tuneInterval is the time between two looks at the heap.
	tuneInterval = 2 * time.Second
	// The heap is at rest when it has been given less than restPart of what lives for restLooks looks, ten seconds.
	restLooks = 5
	restPart  = 64
	// worthPart of what lives is what a collection at rest must be able to give back.
	worthPart = 8
	// startupPercent is the GC percentage of a start. What stays lies close together then: with the headroom of load it
	// is strewn among what only the start needs, and no collection moves it. A start takes some 60 ms longer, and the
	// server 7 to 10 MB less for as long as it runs.
	startupPercent = 30
	// readyInterval is the time between two looks whether the start has ended. After startupTime it has: a server that is
	// not ready may serve most requests, and has the headroom of load.
	readyInterval = 100 * time.Millisecond
	startupTime   = time.Minute
)

// percentFor returns the GC percentage that gives a heap of so many live bytes its headroom.
func percentFor(live uint64) int {
	live = max(live, minLive)
	return int((headroom + live/headroomPart) * 100 / live)
}

// startMemory has the garbage of a start collected early, until tuneMemory is called. It leaves the collector alone
// where the user has set GOGC.
func startMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startupPercent)
	}
}

// tuneMemory keeps the garbage collector's percentage at what the live heap needs, until ctx is done. It leaves it
// alone where the user has set GOGC. GOMEMLIMIT goes before either.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(tuneInterval)
	defer ticker.Stop()
	var (
		heap heap
		rest rest
		set  int
	)
	for {
		heap.read()
		want := percentFor(heap.live)
		// To set it stops the world: not for small changes.
		if change := want - set; change > set/10 || -change > set/10 {
			debug.SetGCPercent(want)
			set = want
		}
		if begins, worth := rest.look(heap); begins {
			if worth {
				debug.FreeOSMemory()
			}
			releaseProgram()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// heap is what the runtime tells of its memory, in bytes.
type heap struct {
	live      uint64 // found by the last collection
	allocated uint64 // ever
	used      uint64 // by objects, dead ones too
	kept      uint64 // free, and not given back
}

// read asks the runtime.
func (h *heap) read() {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	for i, to := range []*uint64{&h.live, &h.allocated, &h.used, &h.kept} {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			*to = samples[i].Value.Uint64()
		}
	}
}

// rest finds out that a heap is at rest. Then the headroom that work needed is worth more to the machine than to the
// server: the runtime alone would keep it for good.
type rest struct {
	looks     int
	allocated uint64 // at the look before
	released  bool   // since the heap came to rest
}

// look tells that the heap has come to rest, once while it is, and whether what is dead or free is then worth a collection to
// give it back.
func (r *rest) look(h heap) (begins, worth bool) {
	if h.allocated-r.allocated > max(h.live, minLive)/restPart {
		r.looks, r.released = 0, false
	}
	r.allocated = h.allocated
	if r.looks++; r.looks < restLooks || r.released {
		return false, false
	}
	r.released = true
	return true, h.kept+(max(h.used, h.live)-h.live) > max(h.live, minLive)/worthPart
}

// releaseStartup gives the memory back that only the start needed, once ready says nil or bound is over.
func releaseStartup(ctx context.Context, ready func() error, bound time.Duration) {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < bound && ready() != nil; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	runtime.GC() // what lies in a sync.Pool outlives the first collection
	debug.FreeOSMemory()
	releaseProgram()
}
