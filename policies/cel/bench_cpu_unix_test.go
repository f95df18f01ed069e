//go:build unix

package cel_test

import (
	"syscall"
	"time"
)

// processorTime is what this process has used, of the processors. On a machine that has
// other things to do it says more than a clock.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
