package torture_test

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// bound has a process end with this one, however this one ends.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// isStopped reports whether a process is stopped by a signal.
func isStopped(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return bytes.HasPrefix(data[bytes.LastIndexByte(data, ')')+1:], []byte(" T"))
}
