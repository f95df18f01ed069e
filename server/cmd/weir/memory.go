package main

import (
	"context"
	"os"
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
	// tuneInterval is the time between two looks at the heap.
	tuneInterval = 2 * time.Second
)

// percentFor returns the GC percentage that gives a heap of so many live bytes its headroom.
func percentFor(live uint64) int {
	live = max(live, 4<<20) // below it the runtime has a least heap of its own
	return int((headroom + live/headroomPart) * 100 / live)
}

// tuneMemory keeps the garbage collector's percentage at what the live heap needs, until ctx is done. It leaves it
// alone where the user has set GOGC. GOMEMLIMIT goes before either.
func tuneMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(tuneInterval)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	set := 0
	for {
		metrics.Read(sample)
		if sample[0].Value.Kind() == metrics.KindUint64 {
			want := percentFor(sample[0].Value.Uint64())
			// To set it stops the world: not for small changes.
			if change := want - set; change > set/10 || -change > set/10 {
				debug.SetGCPercent(want)
				set = want
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// releaseStartup gives the memory back that only the start needed, once ready says nil.
func releaseStartup(ctx context.Context, ready func() error) {
	ticker := time.NewTicker(tuneInterval)
	defer ticker.Stop()
	for ready() != nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	debug.FreeOSMemory()
	releaseProgram()
}
