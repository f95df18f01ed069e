//go:build !unix

package cel_test

import "time"

// processorTime is not known.
func processorTime() time.Duration { return 0 }
