//go:build !unix

package h2_test

import "time"

// processCPU is not known here: benchmarks tell no CPU.
func processCPU() time.Duration { return 0 }
