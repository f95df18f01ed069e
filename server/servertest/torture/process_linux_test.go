package torture_test

import "syscall"

// bound has a process end with this one, however this one ends.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
