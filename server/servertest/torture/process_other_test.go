//go:build unix && !linux

package torture_test

import "syscall"

func bound() *syscall.SysProcAttr { return nil }

// isStopped is not known here.
func isStopped(int) bool { return true }
