package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
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
	if testing.Short() {
		asked++ // without the wait
	}
	releaseStartup(t.Context(), func() error {
		if asked++; asked < 2 {
			return errors.New("not ready")
		}
		return nil
	})
	if after := fileMemory(); before > 0 && after >= before {
		t.Errorf("%d KiB of the program before, %d after", before, after)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	releaseStartup(ended, func() error { return errors.New("never ready") }) // returns
}
