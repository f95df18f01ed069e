//go:build unix

package h2_test

import (
	"syscall"
	"time"
)

// processCPU is the time that the process has used of all processors.
func processCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
