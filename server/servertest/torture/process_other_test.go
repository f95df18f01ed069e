//go:build unix && !linux

package torture_test

import "syscall"

func bound() *syscall.SysProcAttr { return nil }
