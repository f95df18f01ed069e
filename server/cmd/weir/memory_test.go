package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	tests := []struct {
		name string
		live uint64
		want int
	}{
		{"nothing", 0, 812},
		{"at rest", 16 << 20, 212},
		{"some rows", 128 << 20, 37},
		{"many rows", 4 << 30, 13},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := percentFor(tc.live); got != tc.want {
				t.Errorf("percentFor(%d) = %d, want %d", tc.live, got, tc.want)
			}
		})
	}
}

func TestTuneMemory(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("GOGC", "")
	tuneMemory(ctx)
	if got := debug.SetGCPercent(100); got == 100 {
		t.Error("the percentage is left as it was")
	}
	t.Setenv("GOGC", "100")
	tuneMemory(ctx)
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is 100, and the percentage %d", got)
	}
}

func TestStartMemory(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "100")
	startMemory()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("GOGC is 100, and the percentage %d", got)
	}
	t.Setenv("GOGC", "")
	startMemory()
	if got := debug.SetGCPercent(100); got != startupPercent {
		t.Errorf("a start collects at %d percent, want %d", got, startupPercent)
	}
}

func TestRest(t *testing.T) {
	const mib = 1 << 20
	tests := []struct {
		name  string
		heaps []heap // one a look, the last repeated
		looks int
		want  []int // the looks that say yes
	}{
		{"dead and free memory is given back once", []heap{{live: 100 * mib, used: 120 * mib, kept: 10 * mib}}, 3 * restLooks, []int{restLooks}},
		{"dead memory alone is enough", []heap{{live: 100 * mib, used: 120 * mib}}, restLooks, []int{restLooks}},
		{"little is not worth a collection", []heap{{live: 100 * mib, used: 105 * mib, kept: 5 * mib}}, 3 * restLooks, nil},
		{"no collection yet", []heap{{used: 3 * mib}}, restLooks, []int{restLooks}},
		{"work begins the count again", []heap{
			{live: 100 * mib, used: 130 * mib}, {live: 100 * mib, used: 130 * mib}, {live: 100 * mib, used: 130 * mib, allocated: 2 * mib},
		}, restLooks + 5, []int{restLooks + 2}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var r rest
			var got []int
			began := 0
			for i := range tc.looks {
				begins, worth := r.look(tc.heaps[min(i, len(tc.heaps)-1)])
				if begins {
					began++
				}
				if worth {
					got = append(got, i+1)
				}
			}
			if began != 1 {
				t.Errorf("came to rest %d times, want once", began)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("given back at looks %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("each rest once", func(t *testing.T) {
		var r rest
		h, given := heap{live: 100 * mib, used: 130 * mib}, 0
		for range 3 {
			h.allocated += 50 * mib
			for range 2 * restLooks {
				if begins, worth := r.look(h); begins && worth {
					given++
				}
			}
		}
		if given != 3 {
			t.Errorf("given back %d times in three rests", given)
		}
	})
}

func TestHeapRead(t *testing.T) {
	runtime.GC()
	var h heap
	h.read()
	if h.live == 0 || h.allocated == 0 || h.used == 0 {
		t.Errorf("read %+v, want all but kept to be known", h)
	}
}

// fileMemory is the memory of the pages of files, in KiB, 0 where that is not known.
func fileMemory() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n := 0
	if fields := strings.Fields(rest); len(fields) > 0 {
		n, _ = strconv.Atoi(fields[0])
	}
	return n
}

func TestReleaseStartup(t *testing.T) {
	before := fileMemory()
	asked := 0
	releaseStartup(t.Context(), func() error {
		if asked++; asked < 2 {
			return errors.New("not ready")
		}
		return nil
	}, time.Hour)
	if after := fileMemory(); before > 0 && after >= before {
		t.Errorf("%d KiB of the program before, %d after", before, after)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	never := func() error { return errors.New("never ready") }
	releaseStartup(ended, never, time.Hour)               // returns
	releaseStartup(t.Context(), never, readyInterval*3/2) // too
}
