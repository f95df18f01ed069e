//go:build unix

package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir.dev/weir/server/servertest/tools"
)

// process is a binary that can be killed and started again. It ends with the test.
type process struct {
	name    string
	binary  string
	args    []string
	logFile string

	mu      sync.Mutex
	command *exec.Cmd     // nil when it does not run; guarded by mu
	ended   chan struct{} // closed when the latest command has ended; guarded by mu
	// killed and paused count how often SIGKILL has ended it, and SIGSTOP was seen to have stopped it; guarded by mu
	killed, paused int
}

func newProcess(t *testing.T, name, binary, logs string, args ...string) *process {
	p := &process{name: name, binary: binary, args: args, logFile: filepath.Join(logs, name+".log")}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the log of %s ends:\n%s", name, p.tail(6000))
		}
	})
	return p
}

// start starts the process unless it runs.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		return nil
	}
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(p.binary, p.args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = bound()
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	ended := make(chan struct{})
	p.command, p.ended = command, ended
	go func() {
		_ = command.Wait()
		p.mu.Lock()
		p.command = nil
		if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			p.killed++
		}
		p.mu.Unlock()
		close(ended)
	}()
	return nil
}

// signal sends a signal where the process runs.
func (p *process) signal(s os.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		_ = p.command.Process.Signal(s) // it may have ended meanwhile
	}
}

func (p *process) cont() { p.signal(syscall.SIGCONT) }

// stop pauses the process.
func (p *process) stop() {
	p.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := eventually(ctx, time.Millisecond, func(context.Context) error {
		if pid := p.pid(); pid != 0 && !isStopped(pid) {
			return errors.New("not stopped yet")
		}
		return nil
	})
	if err == nil && p.pid() != 0 {
		p.mu.Lock()
		p.paused++
		p.mu.Unlock()
	}
}

// kill ends the process with SIGKILL and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.wait(context.Background())
}

// wait waits until the process has ended.
func (p *process) wait(ctx context.Context) {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// pid is 0 when the process does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return 0
	}
	return p.command.Process.Pid
}

// memory is the resident set in MiB, 0 when it cannot be told.
func (p *process) memory() int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(data, []byte("VmRSS:"))
	var kib int
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0
	}
	return kib / 1024
}

// tail is the end of the log.
func (p *process) tail(n int) string {
	data, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-n):])
}

// freePort returns a port that stays free while a server is down.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := tools.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
