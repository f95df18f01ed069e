//go:build unix && !linux

package torture_test

import (
	"context"
	"testing"
)

func smallDisk(t *testing.T) string {
	t.Skip("a small file system is mounted on Linux only")
	return ""
}

func fillDisk(context.Context, *run) {}
