package torture_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// diskBytes is the size of smallDisk: etcd wants twice 64 MB at once for its log.
const diskBytes = "200m"

// smallDisk returns a file system of a small size. To mount one takes root, or the capability SYS_ADMIN: who has
// neither skips the test, but in CI (the variable CI is set) root must be able to.
func smallDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskBytes); err != nil {
		if mustMount(os.Geteuid(), os.Getenv("CI")) {
			t.Fatalf("a small file system cannot be mounted: %v; give the container that CI runs in the capability SYS_ADMIN", err)
		}
		t.Skipf("a small file system cannot be mounted: %v; run as root on Linux", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// mustMount reports whether a file system that cannot be mounted is a failure.
func mustMount(uid int, ci string) bool { return uid == 0 && ci != "" && ci != "false" }

func TestMustMount(t *testing.T) {
	for _, tc := range []struct {
		uid  int
		ci   string
		want bool
	}{{0, "true", true}, {0, "1", true}, {0, "", false}, {0, "false", false}, {1000, "true", false}} {
		if got := mustMount(tc.uid, tc.ci); got != tc.want {
			t.Errorf("uid %d, CI=%q: %t, want %t", tc.uid, tc.ci, got, tc.want)
		}
	}
}

// fillDisk fills the file system, frees it after a while and starts what has ended.
func fillDisk(ctx context.Context, r *run) {
	dir := filepath.Dir(r.servers[0].dir)
	filler := filepath.Join(dir, "filler")
	for {
		r.wait(ctx, time.Second, 2*time.Second)
		if ctx.Err() != nil {
			return
		}
		if err := fill(filler); err != nil {
			r.t.Error(err)
			return
		}
		r.fault("disk full")
		r.note(fullStorage)
		r.wait(ctx, 2*time.Second, 6*time.Second)
		if err := os.Remove(filler); err != nil {
			r.t.Error(err)
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
				if end := s.tail(3000); !strings.Contains(end, "no space left") {
					r.t.Errorf("%s does not say why it ended: %s", s.name, end)
				}
				r.restart(s)
			}
			_ = s.ready(ctx)
		}
	}
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
