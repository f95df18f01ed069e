package etcd3_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	testclock "k8s.io/utils/clock/testing"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// small is an embedded etcd of a small quota, and a store on it.
type small struct {
	*testing.T
	config etcd3.EmbeddedConfig
	clock  *testclock.FakeClock
	log    *heldBuffer

	etcd  *etcd3.Embedded
	store *etcd3.Store
}

// heldBuffer is a log that can hold who writes a line.
type heldBuffer struct {
	lockedBuffer
	mu   sync.Mutex
	line string        // guarded by mu
	held chan struct{} // guarded by mu
}

// hold has who writes a line like this wait until goOn is called, which must be before the test ends: an etcd that waits here
// does not close.
func (b *heldBuffer) hold(line string) (goOn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	held := make(chan struct{})
	b.line, b.held = line, held
	return sync.OnceFunc(func() { close(held) })
}

func (b *heldBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	line, held := b.line, b.held
	b.mu.Unlock()
	if held != nil && strings.Contains(string(p), line) {
		<-held
	}
	return b.lockedBuffer.Write(p)
}

func newSmall(t *testing.T) *small {
	s := &small{T: t, clock: testclock.NewFakeClock(time.Unix(0, 0)), log: &heldBuffer{}}
	s.config = etcd3.EmbeddedConfig{DataDir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true, QuotaBytes: 12 << 20,
		Logger: slog.New(slog.NewTextHandler(s.log, nil)), Clock: s.clock}
	s.start()
	return s
}

func (s *small) start() {
	s.Helper()
	s.etcd = start(s, s.config)
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: s.etcd.Client(), Embedded: s.etcd})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(health.Close)
	s.store = newStore(s.T, etcd3.Config{Client: s.etcd.Client(), Health: health})
}

// write makes an object of a quarter of a MiB, or overwrites it.
func (s *small) write(name string) error {
	random := make([]byte, 128<<10)
	for i := range random {
		random[i] = byte(rand.Uint32()) //nolint:gosec // nothing is secret
	}
	o := storagetest.NewObject(name).With("k", fmt.Sprintf("%x", random))
	_, err := s.store.GuaranteedUpdate(s.Context(), o.Key(), storage.UpdateOptions{IgnoreNotFound: true}, func(storage.Row) ([]byte, uint64, error) {
		return o.JSON(), 0, nil
	})
	return err
}

// fill writes until that fails. etcd looks at the size of its last batch.
func (s *small) fill(name func(i int) string) error {
	s.Helper()
	for i := range 1000 {
		if err := s.write(name(i)); err != nil {
			return err
		}
		s.etcd.Commit()
	}
	s.Fatal("it does not become full")
	return nil
}

// fillWithObjects writes objects until no history is left that could make room for one more.
func (s *small) fillWithObjects() {
	s.Helper()
	n := 0
	for range 20 {
		_ = s.fill(func(int) string { n++; return fmt.Sprint("o", n) })
		s.look()
		var full *etcd3.FullError
		if errors.As(s.etcd.Full(), &full) && !full.Freeing {
			return
		}
	}
	s.Fatalf("it does not become full of objects:\n%s", s.log)
}

// look has the etcd look after its space once.
func (s *small) look() {
	s.Helper()
	waitFor(s.T, s.clock.HasWaiters)
	s.clock.Step(10 * time.Second)
	waitFor(s.T, s.clock.HasWaiters)
}

func (s *small) wantLog(line string, n int) {
	s.Helper()
	if got := strings.Count(s.log.String(), `msg="`+line); got != n {
		s.Errorf("the log says %q %d times, want %d:\n%s", line, got, n, s.log)
	}
}

// An etcd that is full of history takes writes again, each time.
func TestSpaceOfHistory(t *testing.T) {
	s := newSmall(t)
	for round := 1; round <= 3; round++ {
		err := s.fill(func(i int) string { return fmt.Sprint("o", i%3) })
		if storage.CodeOf(err) != storage.ErrCodeNotReady || !strings.Contains(err.Error(), "embedded etcd is full") || !strings.Contains(err.Error(), "try again") {
			t.Fatalf("full: got %v, want not ready", err)
		}
		s.look()
		if err := s.etcd.Full(); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, s.log)
		}
		if err := s.write("after"); err != nil {
			t.Fatalf("round %d: a write after it: %v", round, err)
		}
		s.wantLog("embedded etcd is full", round)
		s.wantLog("embedded etcd was defragmented", round)
		s.wantLog("embedded etcd takes writes again", round)
	}
}

// History that lies between objects frees no pages, only parts of them.
func TestSpaceOfMixture(t *testing.T) {
	s := newSmall(t)
	client := s.etcd.Client()
	value := strings.Repeat("x", 500)
	var err error
	for i := 0; err == nil; i++ {
		if _, err = client.Put(t.Context(), fmt.Sprint("o", i), value); err == nil {
			_, err = client.Put(t.Context(), "again", value)
		}
		if i%100 == 0 {
			s.etcd.Commit()
		}
	}
	s.look()
	if err := s.etcd.Full(); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	if _, err := client.Put(t.Context(), "again", value); err != nil {
		t.Error(err)
	}

	// So does what is deleted from between others, when it is enough to be worth it.
	var last int
	for full := (*etcd3.FullError)(nil); !errors.As(s.etcd.Full(), &full) || full.Freeing; s.look() {
		for err = nil; err == nil; last++ {
			_, err = client.Put(t.Context(), fmt.Sprint("p", last), value)
			if last%100 == 0 {
				s.etcd.Commit()
			}
		}
	}
	defragmented := strings.Count(s.log.String(), "embedded etcd was defragmented")
	for i := 0; i < last; i += 2 {
		if _, err := client.Delete(t.Context(), fmt.Sprint("p", i)); err != nil {
			t.Fatal(err)
		}
		if i == 10 {
			s.look()
			s.wantLog("embedded etcd was defragmented", defragmented)
		}
	}
	s.look()
	s.wantLog("embedded etcd was defragmented", defragmented+1)
	if err := s.etcd.Full(); err != nil {
		t.Errorf("after deletions: %v", err)
	}
}

// What becomes full again at once is not defragmented all the time.
func TestSpaceRests(t *testing.T) {
	s := newSmall(t)
	history := func(i int) string { return fmt.Sprint("o", i%3) }
	_ = s.fill(history)
	s.look()
	_ = s.fill(history)
	waitFor(t, s.clock.HasWaiters)
	s.clock.Step(time.Second)
	waitFor(t, s.clock.HasWaiters)
	s.wantLog("embedded etcd is full", 2)
	s.wantLog("embedded etcd was defragmented", 1)
	var full *etcd3.FullError
	if !errors.As(s.etcd.Full(), &full) || full.NotBefore.Before(s.clock.Now()) || !strings.Contains(full.Error(), "if that helps, after 1970-01-01T") {
		t.Errorf("got %v", s.etcd.Full())
	}
	var e *storage.Error
	if err := s.write("a"); !errors.As(err, &e) || e.Code != storage.ErrCodeNotReady || e.RetryAfter != min(full.NotBefore.Sub(s.clock.Now()), 10*time.Second) {
		t.Errorf("got %v, want not ready, and until when", err)
	}
	s.look()
	s.wantLog("embedded etcd was defragmented", 2)
	if err := s.write("a"); err != nil {
		t.Error(err)
	}
}

// One that is full of objects says so, and tries nothing that costs something and frees nothing; it takes writes when
// objects have been deleted.
func TestSpaceOfObjects(t *testing.T) {
	s := newSmall(t)
	s.fillWithObjects()
	s.wantLog("embedded etcd takes no writes", 1)
	defragmented := strings.Count(s.log.String(), "embedded etcd was defragmented")
	for range 20 {
		s.look()
	}
	s.wantLog("embedded etcd takes no writes", 1)
	s.wantLog("embedded etcd was defragmented", defragmented)
	err := s.write("more")
	if storage.CodeOf(err) != storage.ErrCodeNoSpace || !strings.Contains(err.Error(), "delete objects, or start with a larger --embedded-etcd-quota-backend-bytes") {
		t.Errorf("got %v, want no space and what to do", err)
	}
	o := storagetest.NewObject("o1")
	if _, err := s.store.Create(t.Context(), o.Key(), o.JSON(), 0); storage.CodeOf(err) != storage.ErrCodeKeyExists {
		t.Errorf("a create of what is there: got %v, want exists", err)
	}
	var full *etcd3.FullError
	if !errors.As(s.etcd.Full(), &full) || full.Freeing || full.Blocked || full.QuotaBytes != s.config.QuotaBytes {
		t.Errorf("got %+v", s.etcd.Full())
	}
	for i := range 10 {
		if _, err := s.store.Delete(t.Context(), storagetest.NewObject(fmt.Sprint("o", i+1)).Key(), storage.DeleteOptions{}); err != nil {
			t.Fatalf("a deletion: %v", err)
		}
	}
	s.look()
	if err := s.write("more"); err != nil {
		t.Errorf("after deletions: %v\n%s", err, s.log)
	}
	if err := s.etcd.Full(); err != nil {
		t.Error(err)
	}
}

// A start waits for no defragmentation, which one does behind it where it helps. Where the quota is a larger one, it takes
// writes at once. What a defragmentation has left that was cut short goes.
func TestSpaceAtStart(t *testing.T) {
	for _, tc := range []struct {
		name         string
		objects      bool
		larger       int64
		defragmented int
		takes        bool
	}{
		{name: "history", defragmented: 1, takes: true},
		{name: "objects", objects: true},
		{name: "a larger quota", objects: true, larger: 4 << 20, takes: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSmall(t)
			if tc.objects {
				s.fillWithObjects()
			} else {
				_ = s.fill(func(i int) string { return fmt.Sprint("o", i%3) })
			}
			before := strings.Count(s.log.String(), "embedded etcd was defragmented")
			if err := s.etcd.Close(); err != nil {
				t.Fatal(err)
			}
			s.config.QuotaBytes += tc.larger
			left := filepath.Join(s.config.DataDir, "member", "snap", "db.tmp.1")
			if err := os.WriteFile(left, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			goOn := s.log.hold("embedded etcd is being defragmented")
			defer goOn()
			s.start()
			if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there: %v", left, err)
			}
			if err := s.write("at once"); (err == nil) != (tc.larger > 0) {
				t.Errorf("right after a start: %v\n%s", err, s.log)
			}
			goOn()
			waitFor(t, s.clock.HasWaiters)
			if err := s.write("more"); (err == nil) != tc.takes {
				t.Errorf("after a start: %v\n%s", err, s.log)
			}
			s.wantLog("embedded etcd was defragmented", before+tc.defragmented)
		})
	}
}

// Why no room can be made is what writes are told, and /readyz: it does not end by itself.
func TestSpaceFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		// breaks has a defragmentation fail until mend is called.
		breaks func(s *small) (mend func())
		text   string
		begun  int
	}{
		{"no file can be made", func(s *small) func() {
			dir := filepath.Join(s.config.DataDir, "member", "snap")
			rename := func(from, to string) {
				if err := os.Rename(from, to); err != nil {
					s.Fatal(err)
				}
			}
			rename(dir, dir+".gone")
			return func() { rename(dir+".gone", dir) }
		}, "no such file or directory", 1},
		{"a full disk", func(s *small) func() {
			s.etcd.SetDiskFree(12 << 20)
			return func() { s.etcd.SetDiskFree(1 << 30) }
		}, "the disk has no room for a defragmentation, which copies what is live: 12582912 bytes are free", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSmall(t)
			_ = s.fill(func(i int) string { return fmt.Sprint("o", i%3) })
			mend := tc.breaks(s)
			for range 3 {
				s.look()
			}
			s.wantLog("embedded etcd is being defragmented", tc.begun) // it is not tried again and again
			s.wantLog("embedded etcd is full, and making room failed", 1)
			err := s.write("more")
			if storage.CodeOf(err) != storage.ErrCodeNoSpace || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "try again") {
				t.Errorf("got %v, want no space and %q", err, tc.text)
			}
			if err := s.etcd.Full(); err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want %q", err, tc.text)
			}
			mend()
			s.clock.Step(time.Minute)
			waitFor(t, s.clock.HasWaiters)
			if err := s.write("more"); err != nil {
				t.Errorf("when nothing stands in the way any more: %v\n%s", err, s.log)
			}
		})
	}
}

// History that is dropped for nothing is kept: while there may be no defragmentation, or the disk has no room for it, and where objects fill the etcd until so
// many are gone that it is likely to help, or some, minutes ago.
func TestSpaceKeepsHistory(t *testing.T) {
	s := newSmall(t)
	kept := func(when string, want bool) {
		t.Helper()
		resp, err := s.etcd.Client().Get(t.Context(), "/")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.etcd.Client().Get(t.Context(), "/", clientv3.WithRev(resp.Header.Revision-1))
		if (err == nil) != want {
			t.Errorf("%s: the history is kept: %t, %v", when, err == nil, err)
		}
	}
	history := func(i int) string { return fmt.Sprint("h", i%3) }
	_ = s.fill(history)
	s.look()
	_ = s.fill(history)
	waitFor(t, s.clock.HasWaiters)
	s.clock.Step(time.Second)
	waitFor(t, s.clock.HasWaiters)
	kept("before a defragmentation may be", true)
	s.look()

	_ = s.fill(history)
	s.etcd.SetDiskFree(1 << 20)
	s.look()
	kept("no room on the disk", false)
	if _, err := s.store.Delete(t.Context(), storagetest.NewObject("h0").Key(), storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.clock.Step(time.Minute)
	waitFor(t, s.clock.HasWaiters)
	kept("still no room on the disk", true)
	s.etcd.SetDiskFree(1 << 30)
	s.clock.Step(time.Minute)
	waitFor(t, s.clock.HasWaiters)

	for i := range 3000 {
		if _, err := s.etcd.Client().Put(t.Context(), fmt.Sprint("tiny", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	s.fillWithObjects()
	kept("full of objects", false)
	if _, err := s.etcd.Client().Delete(t.Context(), "tiny1"); err != nil {
		t.Fatal(err)
	}
	s.look()
	kept("little is gone", true)
	s.clock.Step(2 * time.Minute)
	waitFor(t, s.clock.HasWaiters)
	kept("little is gone since minutes", false)
	for i := range 10 {
		if _, err := s.store.Delete(t.Context(), storagetest.NewObject(fmt.Sprint("o", i+1)).Key(), storage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.look()
	kept("enough is gone", false)
	if err := s.etcd.Full(); err != nil {
		t.Error(err)
	}
}

// What a defragmentation would leave is known before.
func TestSpacePacked(t *testing.T) {
	for _, tc := range []struct {
		name        string
		bytes, each int
	}{
		{"tiny", 10, 15000}, {"small", 300, 5000}, {"half a page", 2000, 3000}, {"a page", 4000, 1500}, {"large", 100000, 60},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := start(t, etcd3.EmbeddedConfig{DataDir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true})
			var work sync.WaitGroup
			for w := range 8 {
				work.Go(func() {
					for i := w; i < tc.each; i += 8 {
						if _, err := e.Client().Put(t.Context(), fmt.Sprint("o", i), strings.Repeat("x", tc.bytes+i%7)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			work.Wait()
			expected, err := e.Packed(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Defragment(); err != nil {
				t.Fatal(err)
			}
			// The smallest files have some pages more, for what is not rows.
			size := e.Size()
			if expected+128<<10 < size || expected > size+size/16 {
				t.Errorf("got %d bytes, expected %d", size, expected)
			}
			t.Logf("%d bytes, expected %d: %.3f", size, expected, float64(expected)/float64(size))
		})
	}
}

// So it is while rows are deleted.
func TestSpacePackedBesideDeletions(t *testing.T) {
	const rows = 20000
	e := start(t, etcd3.EmbeddedConfig{DataDir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true})
	for i := range rows {
		if _, err := e.Client().Put(t.Context(), fmt.Sprint("o", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	least, err := e.Packed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var deletes sync.WaitGroup
	stop := make(chan struct{})
	deletes.Go(func() {
		for i := range rows {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := e.Client().Delete(t.Context(), fmt.Sprint("o", i)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		// What is deleted is there until it is compacted.
		if got, err := e.Packed(t.Context()); err != nil || got < least {
			t.Errorf("got %d bytes, %v, want %d or more", got, err, least)
			break
		}
	}
	close(stop)
	deletes.Wait()
}

// failingKV answers so many reads.
type failingKV struct {
	clientv3.KV
	reads atomic.Int64
}

func (f *failingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if f.reads.Add(-1) < 0 {
		return nil, rpctypes.ErrNoLeader
	}
	return f.KV.Get(ctx, key, opts...)
}

// When it could not be counted what is gone, all of it is counted later; and it is told again that objects fill the etcd.
func TestSpaceCountFails(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reads int64
		many  bool // are gone, in one revision
	}{
		{name: "few"},
		{name: "many", reads: 1, many: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSmall(t)
			client := s.etcd.Client()
			lease, err := client.Grant(t.Context(), 3600)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 16 {
				if _, err := client.Put(t.Context(), fmt.Sprint("leased", i), strings.Repeat("x", 256<<10), clientv3.WithLease(lease.ID)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := client.Put(t.Context(), "tiny", ""); err != nil {
				t.Fatal(err)
			}
			s.fillWithObjects()
			kv := &failingKV{KV: client.KV}
			kv.reads.Store(tc.reads)
			failing := clientv3.NewCtxClient(t.Context())
			failing.KV, failing.Watcher, failing.Maintenance = kv, client.Watcher, client.Maintenance
			s.etcd.SetSpaceClient(failing)
			if tc.many {
				_, err = client.Revoke(t.Context(), lease.ID)
			} else {
				_, err = client.Delete(t.Context(), "tiny")
			}
			if err != nil {
				t.Fatal(err)
			}
			s.look()
			if err := s.etcd.Full(); err == nil || !strings.Contains(err.Error(), "count what is gone") {
				t.Fatalf("while it cannot be counted: %v", err)
			}
			kv.reads.Store(1 << 30)
			s.clock.Step(time.Minute)
			waitFor(t, s.clock.HasWaiters)
			switch err := s.etcd.Full(); {
			case tc.many && err != nil:
				t.Errorf("many are gone: %v", err)
			case !tc.many && (err == nil || !strings.Contains(err.Error(), "delete objects")):
				t.Errorf("few are gone: got %v, want that objects are to be deleted", err)
			}
		})
	}
}

// After a defragmentation that did not help there is no other for a while. Meanwhile it is told that objects are to be deleted
// until enough are, and then that writes will be taken.
func TestSpaceInVain(t *testing.T) {
	s := newSmall(t)
	_ = s.fill(func(i int) string { return fmt.Sprint("o", i%3) })
	waitFor(t, s.clock.HasWaiters)
	goOn := s.log.hold("embedded etcd is being defragmented")
	defer goOn()
	s.clock.Step(10 * time.Second)
	waitFor(t, func() bool {
		var full *etcd3.FullError
		return errors.As(s.etcd.Full(), &full) && full.Blocked
	})
	s.etcd.SetRoom(s.config.QuotaBytes)
	s.clock.Step(time.Minute) // it takes so long
	goOn()
	waitFor(t, s.clock.HasWaiters)
	s.wantLog("embedded etcd was defragmented", 1)
	if err := s.write("more"); storage.CodeOf(err) != storage.ErrCodeNoSpace || !strings.Contains(err.Error(), "delete objects") {
		t.Errorf("full of objects: got %v", err)
	}
	s.etcd.SetRoom(s.config.QuotaBytes - s.etcd.Size() + 1) // one deletion makes it
	if _, err := s.store.Delete(t.Context(), storagetest.NewObject("o1").Key(), storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.look()
	s.wantLog("embedded etcd was defragmented", 1)
	if err := s.write("more"); storage.CodeOf(err) != storage.ErrCodeNotReady || !strings.Contains(err.Error(), "if that helps, after 1970-01-01T") {
		t.Errorf("enough are deleted: got %v, want not ready", err)
	}
	s.clock.Step(20 * time.Minute)
	waitFor(t, s.clock.HasWaiters)
	s.wantLog("embedded etcd was defragmented", 2)
	if err := s.write("more"); err != nil {
		t.Errorf("after the rest: %v", err)
	}
}

// An etcd elsewhere is not ours to defragment: the error says what is to be done.
func TestSpaceElsewhere(t *testing.T) {
	s := newSmall(t)
	s.store = newStore(t, etcd3.Config{Client: s.etcd.Client()})
	err := s.fill(func(i int) string { return fmt.Sprint("o", i) })
	if storage.CodeOf(err) != storage.ErrCodeNoSpace {
		t.Errorf("got %v, want no space", err)
	}
	for _, command := range []string{"etcdctl compaction", "etcdctl defrag", "etcdctl alarm disarm"} {
		if !strings.Contains(err.Error(), command) {
			t.Errorf("%v does not name %s", err, command)
		}
	}
}

// What a full etcd has refused was not written, also where others wrote when it became full.
func TestSpaceRefusesWhole(t *testing.T) {
	s := newSmall(t)
	const writers = 16
	var work sync.WaitGroup
	refused := make([]string, writers)
	for w := range writers {
		work.Go(func() {
			for i := range 1000 {
				name := fmt.Sprintf("w%d-%d", w, i)
				if err := s.write(name); err != nil {
					refused[w] = name
					return
				}
			}
		})
	}
	work.Wait()
	for _, name := range refused {
		if name == "" {
			t.Fatal("it does not become full")
		}
		_, err := s.store.Get(t.Context(), storagetest.NewObject(name).Key(), storage.GetOptions{})
		if !storage.IsNotFound(err) {
			t.Errorf("%s was refused, and is there: %v", name, err)
		}
	}
}
