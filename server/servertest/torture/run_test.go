//go:build unix

package torture_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds the start, and the time after the faults in which everything must get well.
const patience = 90 * time.Second

// moreTime bounds what a run takes longer until it shows something, as a multiple of its duration; it may take patience longer anyway.
const moreTime = 3

// plan is one scenario.
type plan struct {
	name string
	// brief is how long it runs in the short form; 0: it is no part of it.
	brief time.Duration
	// short: this is the short form.
	short bool
	// resource is what the objects are; nil: ConfigMaps.
	resource *resource
	// leases: objects go after objectLife, and several at once.
	leases bool
	// encrypted: the rows are.
	encrypted bool
	// etcds is how many; 0: the one in the server.
	etcds int
	// weirs is how many servers; 0: one.
	weirs                  int
	etcdProxy, clientProxy bool
	etcdArgs, weirArgs     []string
	// fsync: etcd waits for the disk.
	fsync bool
	// pace is between two operations of a writer, pad how many bytes an object has more at most.
	pace time.Duration
	pad  int
	// expires: watches may be told that they are too old.
	expires bool
	// silent: there are no bookmarks, so those who see the last object only watch.
	silent bool
	// sweeps: writers also delete what nobody writes any more, so that objects do not fill a small etcd, only their history.
	sweeps bool
	// roams: watches resume on another server each time.
	roams bool
	// pagers is how many more clients list in pages.
	pagers int
	// stalled is how many watchers do not read until the faults are over.
	stalled int
	// dir is where the processes keep their data; nil: anywhere.
	dir func(t *testing.T) string
	// faults runs until its context is done; nil: nothing fails.
	faults func(context.Context, *run)
	// each is how long a fault and the pause before it take at most, most of the time; 0: slowFault.
	each time.Duration
	// shows are the effects of its faults: each must be seen. showsAny: one of them must.
	shows, showsAny []effect
	// check looks at what the scenario has of its own.
	check func(*run)
}

// run is one plan on its way.
type run struct {
	plan
	t        *testing.T
	started  time.Time
	duration time.Duration
	// longest a watch lasts, in seconds. Bookmarks come two seconds before the end of each, and the end of a run
	// waits for them.
	longest int
	// context is done when the run is given up.
	context context.Context
	seed    uint64
	random  *rand.Rand // of the faults

	nodes    []*node
	servers  []*server
	recorder *recorder

	operations operations
	lists      lists
	board      board
	ciphers    *ciphers // nil: rows are not encrypted
	answers    answers
	watchers   []*watcher
	admit      chan struct{} // closed when the stalled may begin
	admitted   int64         // the revision then; not changed after
	release    chan struct{} // closed when the stalled may read

	// end is the last revision of the run, 0 before it is known.
	end   atomic.Int64
	count atomic.Int64 // of faults
	peak  atomic.Int64 // memory in MiB
	// written is how many bytes the acknowledged writes have had beside the rest.
	written atomic.Int64
	// compacted is up to where the faults have dropped etcd's history, aged up to where the servers have.
	compacted atomic.Int64
	aged      int64
	// removals are held where nothing may be deleted; whoever deletes holds it shared.
	removals sync.RWMutex
	marks    map[string]int64
	paces    []paced

	mu    sync.Mutex
	noted map[effect]int // guarded by mu
}

// now is in nanoseconds since the run began.
func (r *run) now() int64 { return int64(time.Since(r.started)) }

// fault notes that something is about to be broken.
func (r *run) fault(format string, args ...any) {
	r.count.Add(1)
	if testing.Verbose() {
		fmt.Fprintf(r.t.Output(), "%7.3f %s\n", time.Since(r.started).Seconds(), fmt.Sprintf(format, args...))
	}
	r.weigh()
}

// weigh notes the memory of the servers.
func (r *run) weigh() {
	for _, s := range r.servers {
		raise(&r.peak, int64(s.memory()))
	}
}

// lockedSource may be used by several at a time.
type lockedSource struct {
	mu     sync.Mutex
	source rand.Source // guarded by mu
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Uint64()
}

// wait waits for a random time.
func (r *run) wait(ctx context.Context, from, to time.Duration) {
	pause(ctx, from+time.Duration(r.random.Int64N(int64(to-from))))
}

// execute runs a plan for about a duration and returns what came of it.
func (p plan) execute(t *testing.T, duration time.Duration, seed uint64) figures {
	name := fnv.New64()
	_, _ = name.Write([]byte(p.name))
	r := &run{plan: p, t: t, started: time.Now(), duration: duration, seed: seed, random: rand.New(&lockedSource{source: rand.NewPCG(seed, name.Sum64())}),
		admit: make(chan struct{}), release: make(chan struct{}), marks: map[string]int64{}, noted: map[effect]int{}}
	r.longest = 9
	if r.short {
		r.longest = 4
		r.stalled = min(r.stalled, 50)
	}
	if r.resource == nil {
		r.resource = configMaps
	}
	r.weirs = max(r.weirs, 1)
	if r.pace == 0 {
		r.pace = 8 * time.Millisecond
	}
	r.board.latest = map[string]object{}
	t.Logf("seed %d", seed)

	var work sync.WaitGroup
	r.prepare()
	r.started = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer work.Wait()
	defer cancel()
	r.context = ctx

	// Whoever reads runs until all has been seen, whoever writes until the faults are over.
	writing, stop := context.WithCancel(ctx)
	defer stop()
	recording, endRecord := context.WithCancel(ctx)
	defer endRecord()
	var recorded, watched, written sync.WaitGroup
	recorded.Go(func() { r.recorder.follow(recording) })
	work.Go(recorded.Wait)
	r.watchers = r.newWatchers()
	for _, w := range r.watchers {
		watched.Go(func() { w.follow(ctx) })
	}
	work.Go(watched.Wait)
	r.startWriters(writing, &written)
	work.Go(written.Wait)

	failing, calm := context.WithCancel(ctx)
	work.Go(func() {
		defer calm()
		pause(ctx, duration)
		// On a loaded machine a fault may come too late to do anything, or only one that finds nothing to do. And where the first one
		// lasts as long as a short run, clients have only the time before it.
		shown := r.plan
		if r.stalled > 0 {
			shown.faults = nil // what they have done is known when the stalled read, after the run
		}
		for until := time.Now().Add(max(moreTime*duration, patience)); len(shown.shortfalls(r.soFar(), r.effects(), duration)) > 0 && time.Now().Before(until) && ctx.Err() == nil; {
			pause(ctx, 500*time.Millisecond) // to look takes the machine's time too
		}
	})
	if r.faults != nil {
		r.faults(failing, r)
	}
	<-failing.Done()
	r.heal()
	stop()
	written.Wait()
	r.finish()
	close(r.release) // now that the end is known: a bookmark that tells of it too would take a minute
	seen := make(chan struct{})
	work.Go(func() { watched.Wait(); close(seen) })
	select {
	case <-seen:
	case <-time.After(patience):
	}
	endRecord()
	cancel()
	work.Wait()
	for _, w := range r.watchers {
		if n := len(w.segments); !w.left && (n == 0 || !w.segments[n-1].complete) {
			t.Errorf("watch %s does not get to revision %d: it is at %d", w.name, r.end.Load(), w.last)
		}
	}
	return r.judge()
}

// prepare starts the processes and readies what clients need.
func (r *run) prepare() {
	t := r.t
	dir := ""
	if r.dir != nil {
		dir = r.dir(t)
	} else {
		dir = t.TempDir()
	}
	if r.encrypted {
		r.ciphers = newCiphers(t, r.resource)
		r.weirArgs = append(slices.Clip(r.weirArgs), "--encryption-provider-config", r.ciphers.file)
	}
	if r.leases {
		r.weirArgs = append(slices.Clip(r.weirArgs), "--event-ttl", objectLife.String())
	}
	if r.etcds > 0 {
		r.nodes = newNodes(t, &r.plan, dir)
	}
	for i := range r.weirs {
		r.servers = append(r.servers, newServer(t, &r.plan, dir, i, r.nodes))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, n := range r.nodes {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range r.servers {
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range r.servers {
		if err := s.ready(ctx); err != nil {
			t.Fatalf("start: %v", err)
		}
	}
	var etcds []string
	for _, n := range r.nodes {
		etcds = append(etcds, n.address)
	}
	if r.nodes == nil {
		etcds = []string{r.servers[0].etcd}
	} else if err := identify(ctx, r.nodes); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.recorder, err = newRecorder(etcds, r.now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.recorder.client.Close() })
	r.recorder.prefix, r.recorder.batches = r.resource.stored(), r.leases
	if r.ciphers != nil {
		r.recorder.decode = func(ctx context.Context, key string, data []byte) ([]byte, error) {
			return r.ciphers.decode(ctx, key, data, r.now())
		}
	}
	c := r.client(0)
	defer c.close()
	body := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + namespace + `"}}`
	err = eventually(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		code, answer, err := c.ask(ctx, http.MethodPost, "/api/v1/namespaces", body)
		if err == nil && code != http.StatusCreated && answer.Reason != "AlreadyExists" { // by a request whose answer was lost
			err = fmt.Errorf("%d %s", code, answer.Message)
		}
		return err
	})
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	// Other servers may not know of the namespace yet.
	for i := range r.servers {
		c := r.client(i)
		err := eventually(ctx, 5*time.Millisecond, func(ctx context.Context) error {
			code, answer, err := c.ask(ctx, http.MethodPost, r.resource.path()+"?dryRun=All", r.resource.body(object{key: "try", value: "try"}, ""))
			if err == nil && code != http.StatusCreated {
				err = fmt.Errorf("%d %s", code, answer.Message)
			}
			return err
		})
		c.close()
		if err != nil {
			t.Fatalf("namespace: %v", err)
		}
	}
	if err := r.recorder.begin(ctx); err != nil {
		t.Fatal(err)
	}
}

// client returns one that begins at server i.
func (r *run) client(i int) *client {
	var endpoints []endpoint
	for _, s := range r.servers {
		endpoints = append(endpoints, s.endpoint(false))
	}
	return newClient(endpoints, i)
}

func (r *run) source(role string, i int) *rand.Rand {
	h := fnv.New64()
	fmt.Fprintf(h, "%s %s %d", r.name, role, i)
	return rand.New(rand.NewPCG(r.seed, h.Sum64()))
}

const writers = 6

func (r *run) startWriters(ctx context.Context, work *sync.WaitGroup) {
	for i := range writers {
		w := &writer{id: i, client: r.client(i), run: r, random: r.source("writer", i)}
		work.Go(func() { w.work(ctx) })
	}
	for i := range 2 + r.pagers {
		l := &lister{client: r.client(i), run: r, random: r.source("lister", i), pause: 50 * time.Millisecond, paged: i >= 2}
		work.Go(func() { l.work(ctx) })
	}
	for i := range 2 {
		l := r.newReader(i)
		work.Go(func() { l.work(ctx) })
	}
	if r.leases {
		l := &leaser{id: writers + 1, run: r, random: r.source("leaser", 0)}
		work.Go(func() { l.work(ctx) })
	}
}

// crowd is how many watchers see all, beside one of each kind.
const crowd = 10

func (r *run) newWatchers() []*watcher {
	kinds := []watcher{
		{stream: stream{name: "plain"}},
		{stream: stream{name: "left", selector: selector{side: "left"}}},
		{stream: stream{name: "right", selector: selector{side: "right"}}},
		{stream: stream{name: "named", selector: selector{name: steadyKey}}},
		{stream: stream{name: "initial"}, initial: true},
		{stream: stream{name: "initial left", selector: selector{side: "left"}}, initial: true},
		{stream: stream{name: "slow"}, slow: 4 * time.Millisecond},
		{stream: stream{name: "bookmarked"}, bookmarked: true},
		{stream: stream{name: "bookmarked left", selector: selector{side: "left"}}, bookmarked: true},
	}
	// So many watch one thing that a cache gives them its events instead of waking them.
	for i := range crowd {
		kinds = append(kinds, watcher{stream: stream{name: fmt.Sprintf("one of many %d", i)}, bookmarked: i%2 == 0})
	}
	var out []*watcher
	for i := range kinds {
		if k := &kinds[i]; !r.silent || k.selector.side != "right" && k.selector.name == "" && !k.bookmarked {
			out = append(out, k)
		}
	}
	if r.leases {
		for i := range 3 {
			out = append(out, &watcher{stream: stream{name: fmt.Sprintf("breaks off %d", i)}, quits: true})
		}
	}
	out = append(out, r.newStalled()...)
	for i, w := range out {
		w.client, w.run, w.random, w.roams = r.client(i), r, r.source("watcher", i), r.roams
		if w.stalled != nil {
			// What does not fit is certain to wait at the server with HTTP/2 only.
			w.client.narrow(i%2 == 0 && !w.initial && !w.past)
		}
	}
	return out
}

// heal undoes all that faults may have done, and waits until all is well.
func (r *run) heal() {
	for _, n := range r.nodes {
		n.cont()
		for _, p := range []*proxy{n.client, n.peers} {
			if p != nil {
				p.set(weather{})
			}
		}
		if err := n.start(); err != nil {
			r.t.Error(err)
		}
	}
	for _, s := range r.servers {
		s.cont()
		if s.proxy != nil {
			s.proxy.set(weather{})
		}
		r.restart(s)
	}
	ctx, cancel := context.WithTimeout(r.context, patience)
	defer cancel()
	for _, s := range r.servers {
		if err := s.ready(ctx); err != nil {
			r.t.Fatalf("all faults are over: %v", err)
		}
	}
}

// restart starts a server that does not run.
func (r *run) restart(s *server) {
	if err := s.start(); err != nil {
		r.t.Error(err)
	}
}

// finish writes the last object, whose revision ends the run.
func (r *run) finish() {
	w := &writer{id: writers, client: r.client(0), run: r, random: r.random}
	defer w.client.close()
	ctx, cancel := context.WithTimeout(r.context, patience)
	defer cancel()
	for i := 0; ctx.Err() == nil; i++ {
		op := &operation{client: w.id, kind: create, object: object{key: fmt.Sprintf("%s-%d", lastKey, i), value: fmt.Sprintf("last-%d", i), side: "left"}}
		if w.do(op); op.outcome == done {
			r.end.Store(op.got.rv)
			break
		}
		pause(ctx, 50*time.Millisecond)
	}
	if r.end.Load() == 0 {
		r.t.Fatalf("nothing can be written after the faults\n%s", &r.answers)
	}
	err := eventually(ctx, 5*time.Millisecond, func(context.Context) error {
		if seen := r.recorder.seen.Load(); seen < r.end.Load() {
			return fmt.Errorf("etcd's watch is at %d, want %d", seen, r.end.Load())
		}
		return nil
	})
	if err == nil {
		r.aged, err = r.recorder.compacted(ctx, slices.Contains(r.shows, roomMade))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// life of an object, 0: for ever.
func (r *run) life() time.Duration {
	if r.leases {
		return objectLife
	}
	return 0
}

// soFar returns the figures that a run has to show, of those that are known while it is under way; the others are enough.
func (r *run) soFar() figures {
	f := figures{keys: math.MaxInt, events: math.MaxInt, whole: math.MaxInt, faults: int(r.count.Load())}
	for _, op := range r.operations.all() {
		if op.acknowledged() {
			f.acknowledged++
		}
	}
	r.lists.mu.Lock()
	f.lists, f.answered = len(r.lists.parts), maps.Clone(r.lists.answered)
	r.lists.mu.Unlock()
	r.recorder.mu.Lock()
	f.shared = r.recorder.history.shared()
	r.recorder.mu.Unlock()
	return f
}

// judge compares all that was seen with what happened.
func (r *run) judge() figures {
	t := r.t
	history, wrong := r.recorder.end()
	ops := r.operations.all()
	f := figures{name: r.name, answered: r.lists.answered, took: time.Since(r.started), operations: len(ops), watchers: len(r.watchers), faults: int(r.count.Load()),
		lists: len(r.lists.parts), pagesExpired: r.lists.expired}
	f.other += report(t, "what etcd tells", wrong)
	var took []int64
	for _, op := range ops {
		switch {
		case op.acknowledged():
			f.acknowledged++
			took = append(took, op.end-op.call)
		case op.outcome == unknown:
			f.unknown++
		}
	}
	f.write = percentile99(took)
	lost := lostWrites(ops, history)
	f.lostWrites = report(t, "acknowledged writes lost", lost)
	f.other += report(t, "writes that nobody asked for", foreignWrites(ops, history, r.life()))
	f.other += report(t, "objects whose time is over", outlived(history, r.life()))
	f.other += report(t, "answers that no request may get", oddAnswers(ops))
	f.other += report(t, "answers that do not say what fails", r.answers.unclear())
	f.other += report(t, "lists", r.lists.check(history, r.aged))
	keys, illegal := linearizable(ops, history, r.life())
	f.keys = keys
	f.other += report(t, "histories", illegal)

	seen := map[int64]int64{}
	for i := range history.list {
		seen[history.list[i].rv] = history.list[i].seen
	}
	var delays []int64
	var all findings
	for _, w := range r.watchers {
		all.add(w.check(history, r.end.Load()))
		f.resumes += w.resumes
		f.expired += w.expired
		if w.name == "plain" || w.name == "left" {
			for _, a := range w.arrivals {
				delays = append(delays, max(0, a.at-seen[a.rv]))
			}
		}
	}
	f.delay = percentile99(delays)
	f.events, f.bookmarks, f.whole, f.broken, f.shared = all.events, all.bookmarks, all.whole, all.broken, history.shared()
	f.lostEvents, f.repeated, f.disorder = len(all.lost), len(all.repeated), len(all.disorder)
	f.other += len(all.filter) + len(all.bookmark)
	report(t, "watches", all.all())
	if f.expired > 0 && !r.expires {
		t.Errorf("%d watches were told that they are too old, and nothing was compacted", f.expired)
	}
	if f.pagesExpired > 0 && !r.expires {
		t.Errorf("%d pages were said to be too old, and nothing was compacted", f.pagesExpired)
	}
	r.weigh()
	for _, s := range r.servers {
		f.other += report(t, s.name+" says", s.complaints())
	}
	f.memory = int(r.peak.Load())
	f.other += report(t, "nothing is shown", r.shortfalls(f, r.effects(), r.duration))
	if r.plan.check != nil {
		r.plan.check(r)
	}
	t.Logf("answers other than success:\n%s", &r.answers)
	var b strings.Builder
	table(&b, []figures{f})
	t.Logf("\n%s", b.String())
	return f
}

// report fails the test for what is wrong and returns how much that is.
func report(t *testing.T, what string, wrong []string) int {
	t.Helper()
	slices.SortFunc(wrong, func(a, b string) int { return len(a) - len(b) })
	for i, text := range wrong {
		if i == 8 {
			t.Errorf("%s: and %d more", what, len(wrong)-i)
			break
		}
		t.Errorf("%s: %.6000s", what, text)
	}
	return len(wrong)
}
