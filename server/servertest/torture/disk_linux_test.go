package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// diskBytes is the size of smallDisk: etcd wants twice 64 MB at once for its log, and as much again to mend one that ends
// within a write; beside these is the database.
const diskBytes = "500m"

// smallDisk returns a file system of a small size. To mount one takes the capability SYS_ADMIN, and a system that lets
// who has it: where either is not so the test is skipped. In CI (the variable CI is set) it fails where a mount is
// permitted and does not succeed.
func smallDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskBytes); err != nil {
		status, _ := os.ReadFile("/proc/self/status")
		if mustMount(status, err, os.Getenv("CI")) {
			t.Fatalf("a small file system cannot be mounted: %v", err)
		}
		t.Skipf("SKIPPED: nothing is shown of a full disk, as a small file system cannot be mounted: %v; it takes root on Linux, or a container with the capability SYS_ADMIN", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// capSysAdmin is the bit of CAP_SYS_ADMIN.
const capSysAdmin = 21

// mustMount reports whether a file system that cannot be mounted is a failure. status is /proc/self/status.
func mustMount(status []byte, err error, ci string) bool {
	_, rest, _ := strings.Cut(string(status), "CapEff:")
	var has uint64
	if _, err := fmt.Sscanf(rest, "%x", &has); err != nil {
		return false
	}
	permitted := has&(1<<capSysAdmin) != 0 && !errors.Is(err, os.ErrPermission)
	return permitted && ci != "" && ci != "false"
}

func TestMustMount(t *testing.T) {
	const root, container = "Name:\ttest\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n", "Name:\ttest\nCapEff:\t00000000a80425fb\n"
	for _, tc := range []struct {
		name, status string
		err          error
		ci           string
		want         bool
	}{
		{"root", root, syscall.ENOMEM, "true", true},
		{"root, not in CI", root, syscall.ENOMEM, "", false},
		{"root, CI is off", root, syscall.ENOMEM, "false", false},
		{"root that a profile forbids it", root, syscall.EACCES, "true", false},
		{"root that a filter forbids it", root, syscall.EPERM, "1", false},
		{"root of a container", container, syscall.EPERM, "true", false},
		{"root of a container that has nothing to mount", container, syscall.ENODEV, "true", false},
		{"nothing is known", "", syscall.ENOMEM, "true", false},
	} {
		if got := mustMount([]byte(tc.status), tc.err, tc.ci); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}

// fillDisk fills the file system, frees it after a while and starts what has ended. The first time it is full until a
// process has met that: for a while each has space in the files that are there.
func fillDisk(ctx context.Context, r *run) {
	dir := filepath.Dir(r.servers[0].dir)
	filler := filepath.Join(dir, "filler")
	for met := false; ; {
		r.wait(ctx, time.Second, 2*time.Second)
		if r.context.Err() != nil || met && ctx.Err() != nil {
			return
		}
		before := r.metFullDisk()
		if err := fill(filler); err != nil {
			r.t.Error(err)
			return
		}
		r.fault("disk full")
		r.wait(ctx, 2*time.Second, 6*time.Second)
		if !met {
			until, cancel := context.WithTimeout(r.context, patience)
			met = eventually(until, 10*time.Millisecond, func(context.Context) error {
				if r.metFullDisk() == before {
					return errors.New("nobody has met the full disk")
				}
				return nil
			}) == nil
			cancel()
			pause(r.context, time.Second) // who has met it may be about to end
		}
		if err := os.Remove(filler); err != nil {
			r.t.Error(err)
		}
		if r.metFullDisk() > before {
			r.note(fullStorage)
		}
		for _, n := range r.nodes {
			if n.pid() == 0 {
				r.fault("%s had ended", n.name)
				if err := n.start(); err != nil {
					r.t.Error(err)
				}
			}
		}
		for _, s := range r.servers {
			if s.pid() == 0 {
				r.fault("%s had ended", s.name)
				if end := s.tail(3000); !strings.Contains(end, noSpace) {
					r.t.Errorf("%s does not say why it ended: %s", s.name, end)
				}
				r.restart(s)
			}
			_ = s.ready(ctx)
		}
		if !met {
			return // which the run fails for
		}
	}
}

// metFullDisk counts how often a process has said that a write failed for want of space. etcd ends by it.
func (r *run) metFullDisk() (n int) {
	count := func(p *process) {
		log, _ := os.ReadFile(p.logFile) // there since it was started
		n += bytes.Count(log, []byte(noSpace))
	}
	for _, node := range r.nodes {
		count(node.process)
	}
	for _, s := range r.servers {
		count(s.process)
	}
	return n
}

// fill writes until there is no space.
func fill(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 64<<10)
	for size := len(block); size > 0; {
		if _, err := file.Write(block[:size]); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}
