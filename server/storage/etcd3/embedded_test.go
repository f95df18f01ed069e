package etcd3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// childDir is the environment variable that makes the test binary a child that writes
// to an embedded etcd in that directory until it is killed.
const childDir = "WEIR_TEST_ETCD_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := writeForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writeForEver(dir string) error {
	ctx := context.Background()
	e, err := etcd3.StartEmbedded(ctx, etcd3.EmbeddedConfig{DataDir: dir})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := e.Client().Put(ctx, "n", strconv.Itoa(i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// child starts the test binary as a child and returns what it prints. It is killed at
// the end of the test at the latest.
func child(t *testing.T, dir string) (*exec.Cmd, func() string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, func() string {
		var line []byte
		for b := make([]byte, 1); ; {
			if _, err := out.Read(b); err != nil {
				return ""
			}
			if b[0] == '\n' {
				return string(line)
			}
			line = append(line, b[0])
		}
	}
}

func start(t testing.TB, cfg etcd3.EmbeddedConfig) *etcd3.Embedded {
	t.Helper()
	e, err := etcd3.StartEmbedded(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// What was written before a kill -9 is there after a restart, and while the child
// lives its directory is refused at once.
func TestEmbeddedKilled(t *testing.T) {
	dir := t.TempDir()
	cmd, line := child(t, dir)
	for range 50 {
		if line() == "" {
			t.Fatal("child has stopped")
		}
	}
	_, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: dir})
	if !errors.Is(err, etcd3.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want %v and the directory", err, etcd3.ErrLocked)
	}
	acknowledged := line()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for l := acknowledged; l != ""; l = line() {
		acknowledged = l
	}
	_ = cmd.Wait()

	e := start(t, etcd3.EmbeddedConfig{DataDir: dir})
	resp, err := e.Client().Get(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	want, err := strconv.Atoi(acknowledged)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := strconv.Atoi(string(resp.Kvs[0].Value)); err != nil || got < want {
		t.Errorf("got write %s after the restart, want at least %d", resp.Kvs[0].Value, want)
	}
}

// A directory that a plain etcd uses, which knows nothing of our lock, is refused too.
func TestEmbeddedLockedByEtcd(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "plan9" {
		t.Skip("no flock")
	}
	dir := t.TempDir()
	e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: dir}); !errors.Is(err, etcd3.ErrLocked) {
		t.Errorf("got error %v, want %v", err, etcd3.ErrLocked)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, etcd3.EmbeddedConfig{DataDir: dir})
}

func TestEmbeddedRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	var revision int64
	for i := range 3 {
		e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: i%2 == 0})
		resp, err := e.Client().Put(t.Context(), "k", strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		if resp.Header.Revision <= revision {
			t.Errorf("start %d: revision %d is not after %d", i, resp.Header.Revision, revision)
		}
		revision = resp.Header.Revision
		for range 2 {
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
		<-e.Done()
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("data directory has mode %o, want 700", got)
	}
}

// A restart stands for election while it applies, and while etcd shortens its log in memory: it does so
// every hundred entries.
func TestEmbeddedRestartWithEntries(t *testing.T) {
	dir := t.TempDir()
	const entries, restarts = 300, 25
	for i := range restarts {
		e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true})
		if i == 0 {
			for n := range entries {
				if _, err := e.Client().Put(t.Context(), strconv.Itoa(n), "v"); err != nil {
					t.Fatal(err)
				}
			}
		}
		resp, err := e.Client().Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if resp.Count != entries {
			t.Fatalf("start %d: %d keys, want %d", i, resp.Count, entries)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// In process only means that there is no socket.
func TestEmbeddedNoSocket(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts sockets in /proc")
	}
	before := sockets(t)
	dir := t.TempDir()
	e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true})
	if e.Addr() != nil {
		t.Errorf("listens at %v", e.Addr())
	}
	for socket := range sockets(t) {
		if !before[socket] {
			t.Errorf("%s is open", socket)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			t.Errorf("socket at %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sockets returns those that are open. Those of tests before may be closed later.
func sockets(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			open[target] = true
		}
	}
	return open
}

// An ordinary client, as etcdctl is one, reads the rows and passes the suite.
func TestEmbeddedListen(t *testing.T) {
	for _, where := range []string{"127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "etcd.sock")} {
		t.Run(strings.SplitN(where, ":", 2)[0], func(t *testing.T) {
			e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: where})
			endpoint := e.Addr().String()
			if path, ok := strings.CutPrefix(where, "unix://"); ok {
				endpoint = where
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("socket %v, %v, want mode 600", info, err)
				}
			}
			store, err := etcd3.New(etcd3.Config{Client: e.Client()})
			if err != nil {
				t.Fatal(err)
			}
			o := storagetest.NewObject("a")
			row := storagetest.Create(t.Context(), t, store, o)

			client := dial(t, etcd3.DialConfig{Endpoints: []string{endpoint}})
			resp, err := client.Get(t.Context(), o.Key())
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != string(o.JSON()) || resp.Kvs[0].ModRevision != int64(row.ResourceVersion) {
				t.Errorf("got %v, want %s at %d", resp.Kvs, o.JSON(), row.ResourceVersion)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestEmbeddedListenTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	if _, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: dir, ListenClient: l.Addr().String()}); err == nil {
		t.Fatal("started on an address that is taken")
	}
	// The directory is free again.
	start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true})
}

func TestEmbeddedConfig(t *testing.T) {
	for name, cfg := range map[string]etcd3.EmbeddedConfig{
		"no directory":   {},
		"negative quota": {DataDir: "x", QuotaBytes: -1},
		"negative limit": {DataDir: "x", MaxObjectBytes: -1},
		"quota":          {DataDir: "x", QuotaBytes: 1<<40 + 1},
	} {
		if _, err := etcd3.StartEmbedded(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: file}); err == nil {
		t.Error("started in a file")
	}
}

// A start and a stop say nothing that an operator would have to think about.
func TestEmbeddedLog(t *testing.T) {
	var log lockedBuffer
	dir := filepath.Join(t.TempDir(), "data")
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, Logger: logger})
		if _, err := e.Client().Put(t.Context(), "k", "v"); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(log.String()) {
		// A busy machine makes etcd complain of slow requests, and rightly.
		if !strings.Contains(line, "took too long") && !strings.Contains(line, "slow") {
			t.Errorf("logged: %s", line)
		}
	}
	// A warning comes through.
	start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, Logger: logger, ListenClient: "0.0.0.0:0"})
	if !strings.Contains(log.String(), "open to the network") {
		t.Errorf("logged %q, want a warning", log.String())
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestEmbeddedQuota(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, QuotaBytes: 1 << 20})
	store, err := etcd3.New(etcd3.Config{Client: e.Client()})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 500<<10)
	// etcd compares what its last batch commit, a tenth of a second ago, had written.
	for i := range 400 {
		o := storagetest.NewObject(fmt.Sprint("o", i)).With("k", large)
		if _, err = store.Create(t.Context(), o.Key(), o.JSON(), 0); err != nil {
			break
		}
	}
	if storage.CodeOf(err) != storage.ErrCodeNoSpace {
		t.Errorf("got error %v, want no space", err)
	}
}

// A server that has stopped gives an error, at once.
func TestEmbeddedStopped(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	store, err := etcd3.New(etcd3.Config{Client: e.Client()})
	if err != nil {
		t.Fatal(err)
	}
	o := storagetest.NewObject("a")
	storagetest.Create(t.Context(), t, store, o)
	w, err := store.Watch(t.Context(), storagetest.Prefix, storage.ListOptions{Recursive: true, ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeUnreachable {
		t.Errorf("get: got error %v, want unreachable", err)
	}
	if _, err := store.Create(ctx, o.Key(), o.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeUnreachable {
		t.Errorf("create: got error %v, want unreachable", err)
	}
	if err := store.ReadinessCheck(); storage.CodeOf(err) != storage.ErrCodeUnreachable {
		t.Errorf("readiness: got error %v, want unreachable", err)
	}
	for {
		if _, err = w.Next(ctx); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("the watch does not end")
	}
}

func dial(t testing.TB, cfg etcd3.DialConfig) *clientv3.Client {
	t.Helper()
	client, err := etcd3.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func BenchmarkStartEmbedded(b *testing.B) {
	for b.Loop() {
		e := start(b, etcd3.EmbeddedConfig{DataDir: b.TempDir()})
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
