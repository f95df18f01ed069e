package etcd3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// eachClient runs a test in process, with an etcd, and over gRPC.
func eachClient(t *testing.T, test func(t *testing.T, client *clientv3.Client)) {
	t.Helper()
	t.Run("in process", func(t *testing.T) {
		e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
		test(t, e.Client())
	})
	t.Run("grpc", func(t *testing.T) {
		e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
		test(t, dialed(t, e.Addr().String()))
	})
}

func dialed(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	client, err := etcd3.Dial(etcd3.DialConfig{Endpoints: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// history writes objects of some size and returns the revision before the first. Each transaction writes several.
func history(t *testing.T, client *clientv3.Client, transactions, each, size int) uint64 {
	t.Helper()
	var first int64
	data := strings.Repeat("x", size)
	for i := range transactions {
		var ops []clientv3.Op
		for j := range each {
			o := storagetest.NewObject(fmt.Sprintf("o%d", j)).With("n", fmt.Sprint(i)).With("data", data)
			ops = append(ops, clientv3.OpPut(o.Key(), string(o.JSON())))
		}
		resp, err := client.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = resp.Header.Revision
		}
	}
	return uint64(first - 1)
}

// behind returns options of a watch that begins behind a revision.
func behind(rev uint64) storage.ListOptions {
	opts := everything()
	opts.ResourceVersion, opts.Progress = storage.FormatResourceVersion(rev), true
	return opts
}

func watchFrom(t *testing.T, store *etcd3.Store, rev uint64) storage.Watcher {
	t.Helper()
	w, err := store.Watch(t.Context(), storagetest.Prefix, behind(rev))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// readAll reads the events of a history, all of a revision together, and those before in Prev.
func readAll(t *testing.T, w storage.Watcher, from uint64, transactions, each int, pause func(n int)) {
	t.Helper()
	for seen := 0; seen < transactions*each; {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d events: %v", seen, err)
		}
		if events[0].Type == storage.Bookmark {
			if rv := events[0].Row.ResourceVersion; seen < transactions*each && rv > from+uint64(seen/each) {
				t.Fatalf("a bookmark at %d after %d events of %d", rv, seen, from)
			}
			continue
		}
		for _, e := range events {
			want := from + 1 + uint64(seen/each)
			if e.Row.ResourceVersion != want || seen >= each && e.Prev.ResourceVersion != want-1 {
				t.Fatalf("event %d: %s at %d, before it %d, want %d", seen, e.Row.Key, e.Row.ResourceVersion, e.Prev.ResourceVersion, want)
			}
			seen++
		}
		if seen%each != 0 {
			t.Fatalf("a revision is torn after %d of %d events", seen%each, each)
		}
		if pause != nil {
			pause(seen)
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	for range 2 { // what is pooled outlives one
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// wantHeap waits until no more is alive: etcd, which is in this process too, may be slow to let go of what it was about to send.
func wantHeap(t *testing.T, most int64) {
	t.Helper()
	alive := heap()
	for end := time.Now().Add(time.Minute); alive > most && time.Now().Before(end); alive = heap() {
		time.Sleep(50 * time.Millisecond)
	}
	if alive > most {
		t.Errorf("%d MiB are alive, want %d at most", alive>>20, most>>20)
	}
}

// A watch that begins in the past and is not read takes little memory, and loses nothing.
func TestPacedMemory(t *testing.T) {
	eachClient(t, func(t *testing.T, client *clientv3.Client) {
		const transactions, each, size = 2048, 8, 4 << 10 // 64 MiB
		store := newStore(t, etcd3.Config{Client: client})
		from := history(t, client, transactions, each, size)
		before := heap()
		w := watchFrom(t, store, from)
		untilParked(t)
		wantHeap(t, before+etcd3.AheadBytes/2+8<<20)
		readAll(t, w, from, transactions, each, nil)
	})
}

// Watches that begin in the past and are not read cost an etcd in this process its batches for a moment, whatever their number.
func TestPacedMany(t *testing.T) {
	const transactions, each, size = 128, 8, 32 << 10 // 32 MiB, a batch
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true})
	store := newStore(t, etcd3.Config{Client: e.Client()})
	from := history(t, e.Client(), transactions, each, size)
	before, most := heap(), int64(0)
	all := make([]storage.Watcher, 8)
	began := time.Now()
	var opening sync.WaitGroup
	for i := range all {
		opening.Go(func() {
			w, err := store.Watch(t.Context(), storagetest.Prefix, behind(from))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(w.Stop)
			all[i] = w
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	// etcd reads once in a tenth of a second, for those that have come since.
	batches := 4 + int64(time.Since(began)/(100*time.Millisecond))
	for range 8 {
		time.Sleep(etcd3.ParkAfter / 8)
		most = max(most, heap()-before)
	}
	if most > batches*transactions*each*size {
		t.Errorf("%d MiB more for the watches", most>>20)
	}
	untilParked(t)
	wantHeap(t, before+etcd3.AheadBytes+8<<20)
	for _, w := range all[:2] {
		readAll(t, w, from, transactions, each, nil)
	}
}

// A watch that is read with pauses, long enough for its stream to be closed, loses nothing, nor is anything sent again.
func TestPacedPauses(t *testing.T) {
	eachClient(t, func(t *testing.T, client *clientv3.Client) {
		const transactions, each, size = 200, 8, 16 << 10 // a batch of etcd is several fragments, some within a revision
		store := newStore(t, etcd3.Config{Client: client})
		from := history(t, client, transactions, each, size)
		w := watchFrom(t, store, from)
		pauses := 0
		readAll(t, w, from, transactions, each, func(n int) {
			if pauses++; pauses < 5 {
				untilParked(t)
			}
		})
		if pauses < 5 {
			t.Errorf("all came at %d times", pauses)
		}
		// What nobody takes of progress is told when the watch is read.
		if _, err := client.Put(t.Context(), "/elsewhere", "x"); err != nil {
			t.Fatal(err)
		}
		if err := store.RequestWatchProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		untilParked(t)
		for last := uint64(0); last <= from+transactions; {
			events, err := w.Next(t.Context())
			if err != nil || events[0].Type != storage.Bookmark {
				t.Fatalf("got %v, %v, want a bookmark", events, err)
			}
			last = events[0].Row.ResourceVersion
		}
	})
}

// What a watch has not read may be compacted, where it is more than is kept.
func TestPacedCompacted(t *testing.T) {
	eachClient(t, func(t *testing.T, client *clientv3.Client) {
		const transactions, each = 1200, 2
		store := newStore(t, etcd3.Config{Client: client})
		from := history(t, client, transactions, each, 16<<10)
		w := watchFrom(t, store, from)
		if events, err := w.Next(t.Context()); err != nil || events[0].Row.ResourceVersion != from+1 {
			t.Fatalf("got %v, %v", events, err)
		}
		untilParked(t)
		if _, err := client.Compact(t.Context(), int64(from+transactions)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var err error
		for err == nil {
			_, err = w.Next(ctx)
		}
		if storage.CodeOf(err) != storage.ErrCodeExpired {
			t.Errorf("got %v, want expired", err)
		}
	})
}

// A watch that is stopped leaves no goroutine, whatever it does then.
func TestPacedStop(t *testing.T) {
	eachClient(t, func(t *testing.T, client *clientv3.Client) {
		store := newStore(t, etcd3.Config{Client: client})
		const transactions, each = 500, 8
		from := history(t, client, transactions, each, 1<<10)
		stop := func(w storage.Watcher) {
			t.Helper()
			w.Stop()
			if _, err := w.Next(t.Context()); !errors.Is(err, io.EOF) {
				t.Errorf("after stop: %v", err)
			}
			eventually(t, func() bool { return pacedGoroutines() == 0 })
		}
		offering := watchFrom(t, store, from)
		eventually(t, func() bool { return goroutinesIn("etcd3.(*paced).offer(") > 0 })
		stop(offering)
		parked := watchFrom(t, store, from)
		untilParked(t)
		stop(parked)
		idle := watchFrom(t, store, from+transactions)
		if pacedGoroutines() == 0 {
			t.Error("the watch is not seen among the goroutines")
		}
		stop(idle)
		// One whose Next waits.
		waiting := watchFrom(t, store, from+transactions)
		var next sync.WaitGroup
		next.Go(func() {
			for err := error(nil); err == nil; {
				_, err = waiting.Next(t.Context())
			}
		})
		stopped := time.AfterFunc(50*time.Millisecond, waiting.Stop)
		defer stopped.Stop()
		next.Wait()
		eventually(t, func() bool { return pacedGoroutines() == 0 })
	})
}

// pacedGoroutines is how many goroutines there are of watches, those of etcd's server in this process among them.
func pacedGoroutines() int {
	return goroutinesIn("etcd3.(*paced).") + goroutinesIn(inServer)
}

// inServer is where goroutines of etcd's server are that serve a stream of watches.
const inServer = "(*serverWatchStream)."

// goroutinesIn is how often goroutines are in functions whose names have this part.
func goroutinesIn(function string) int {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2)
	return strings.Count(text.String(), function)
}

// untilParked waits until the streams of watches that nobody reads are closed, and nothing more is read ahead of them.
func untilParked(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		time.Sleep(10 * time.Millisecond) // a look at all goroutines stops them
		return goroutinesIn(inServer)+goroutinesIn("etcd3.(*paced).follow(") == 0
	})
}

// lossy passes connections on until they are cut.
type lossy struct {
	to string
	l  net.Listener

	received atomic.Int64 // bytes of the answers
	deaf     atomic.Bool  // what the client says is lost from now on

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

// counting is a writer that notes how much is written.
type counting struct {
	io.Writer
	n *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// heard is a writer that passes nothing on once its other end is deaf.
type heard struct {
	io.Writer
	deaf *atomic.Bool
}

func (h heard) Write(b []byte) (int, error) {
	if h.deaf.Load() {
		return len(b), nil
	}
	return h.Writer.Write(b)
}

func newLossy(t *testing.T, to string) *lossy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossy{to: to, l: l}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			serving.Go(func() { _, _ = io.Copy(counting{in, &p.received}, out); _ = in.Close() })
			serving.Go(func() { _, _ = io.Copy(heard{out, &p.deaf}, in); _ = out.Close() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		serving.Wait()
	})
	return p
}

func (p *lossy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// A watch goes on where its connection broke, with whole revisions.
func TestPacedBroken(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	proxy := newLossy(t, e.Addr().String())
	store := newStore(t, etcd3.Config{Client: dialed(t, proxy.l.Addr().String())})
	const transactions, each = 300, 8
	from := history(t, e.Client(), transactions, each, 16<<10)
	w := watchFrom(t, store, from)
	cuts := 0
	readAll(t, w, from, transactions, each, func(int) {
		proxy.cut()
		cuts++
	})
	if cuts < 5 {
		t.Errorf("%d cuts, want more", cuts)
	}
}

// Of a watch that is not read, little is taken from etcd.
func TestPacedTaken(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	proxy := newLossy(t, e.Addr().String())
	store := newStore(t, etcd3.Config{Client: dialed(t, proxy.l.Addr().String())})
	const transactions, each = 300, 8
	from := history(t, e.Client(), transactions, each, 16<<10)
	before := proxy.received.Load()
	w := watchFrom(t, store, from)
	untilParked(t)
	if taken := proxy.received.Load() - before; taken > etcd3.AheadBytes/2+8<<20 {
		t.Errorf("%d MiB taken for a watch that is not read", taken>>20)
	}
	readAll(t, w, from, transactions, each, nil)
}

// In a round trip a watch takes in more than a MiB of what comes of itself.
func TestWatchWindow(t *testing.T) {
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	proxy := newLossy(t, e.Addr().String())
	client := dialed(t, proxy.l.Addr().String())
	created := client.Watch(t.Context(), storagetest.Prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if resp := <-created; !resp.Created {
		t.Fatal(resp)
	}
	before := proxy.received.Load()
	proxy.deaf.Store(true)
	history(t, e.Client(), 80, 1, 100<<10) // 8 MB in small messages, of which none is acknowledged
	eventually(t, func() bool { return proxy.received.Load()-before > 7<<19 })
}

// socketFor returns where an etcd may listen again after its end: a port may be another's by then.
func socketFor(t *testing.T) string {
	t.Helper()
	return "unix://" + filepath.Join(t.TempDir(), "etcd.sock")
}

// A watch outlives etcd's end, and a client that is closed ends it.
func TestPacedRestart(t *testing.T) {
	dir, addr := t.TempDir(), socketFor(t)
	e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, ListenClient: addr})
	client := dialed(t, addr)
	store := newStore(t, etcd3.Config{Client: client})
	from := history(t, client, 2, 1, 10)
	w := watchFrom(t, store, from)
	readAll(t, w, from, 1, 1, nil)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, ListenClient: addr})
	from = history(t, e.Client(), 2, 1, 10)
	for seen := from; seen < from+2; {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Row.ResourceVersion > from && e.Type != storage.Bookmark {
				if e.Row.ResourceVersion != seen+1 {
					t.Fatalf("%d after %d", e.Row.ResourceVersion, seen)
				}
				seen++
			}
		}
	}
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = w.Next(t.Context())
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("after the client was closed: %v", err)
	}
}

// A watch whose etcd comes back from an earlier state ends, before that has as many revisions again.
func TestPacedRestored(t *testing.T) {
	dir, copied, addr := t.TempDir(), t.TempDir(), socketFor(t)
	e := start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, ListenClient: addr})
	history(t, e.Client(), 2, 1, 10)
	restart := func(dir string) {
		t.Helper()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = start(t, etcd3.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true, ListenClient: addr})
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	restart(dir)
	store := newStore(t, etcd3.Config{Client: dialed(t, addr)})
	from := history(t, e.Client(), 2, 1, 10)
	w := watchFrom(t, store, from)
	readAll(t, w, from, 2, 1, nil)
	restart(copied)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		events, err := w.Next(ctx)
		if err == nil && events[0].Type == storage.Bookmark {
			continue
		}
		if storage.CodeOf(err) != storage.ErrCodeExpired {
			t.Errorf("%v, %v, want an expired watch", events, err)
		}
		return
	}
}

// TestPacedDeadline: a watch whose time is over ends cleanly, whichever clock is first.
func TestPacedDeadline(t *testing.T) {
	eachClient(t, func(t *testing.T, client *clientv3.Client) {
		from := history(t, client, 1, 1, 1)
		store := newStore(t, etcd3.Config{Client: client})
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i)*time.Millisecond)
			defer cancel()
			opts := everything()
			opts.ResourceVersion = storage.FormatResourceVersion(from)
			w, err := store.Watch(ctx, storagetest.Prefix, opts)
			if errors.Is(err, context.DeadlineExceeded) {
				continue // a slow machine
			}
			for err == nil {
				_, err = w.Next(t.Context())
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("watch %d ended with %v", i, err)
			}
			w.Stop()
		}
	})
}
