package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// load says how much is done.
type load struct {
	workers, objects, held, watchers, turns int
	duration, warmup, settle                time.Duration
}

// bench is what a scenario measures with.
type bench struct {
	*client
	load
	process process
	// modules is the directory that the server reads modules from; "": it has none.
	modules string
}

// listers is the most lists under way at one time: more of them do not end within a minute on a small machine.
const listers = 2

// scenario is one kind of work.
type scenario struct {
	name string
	run  func(ctx context.Context, b *bench) (result, error)
	// fresh is that the server must have done nothing else: the memory that earlier work took would be given back
	// meanwhile, and be taken off.
	fresh bool
}

// scenarios in the order that they run. Those that leave objects behind clear them.
func scenarios() []scenario {
	return []scenario{
		{name: "idle", run: idle},
		{name: "create", run: create},
		{name: "get", run: get},
		{name: "list", run: list("?resourceVersion=0")},
		{name: "list-consistent", run: list("")},
		{name: "list-pages", run: pages},
		{name: "merge-patch", run: mergePatch},
		{name: "apply", run: applying(func(i int) int { return i })},
		{name: "apply-same", run: applying(func(int) int { return 7 })},
		{name: "watch", run: watch},
		{name: "policies-100", run: adding(policies(100))},
		{name: "guest-c", run: adding(guest("guest-c"))},
		{name: "guest-go", run: adding(guest("guest-go"))},
		{name: "held-rss", run: held(func(b *bench) (int64, error) { return b.process.rss(), nil }), fresh: true},
		{name: "held-heap", run: held((*bench).liveHeap), fresh: true},
	}
}

// idle is the memory of a server that has just started.
func idle(ctx context.Context, b *bench) (result, error) {
	if err := pause(ctx, b.settle/4); err != nil {
		return result{}, err
	}
	return result{value: float64(b.process.rss()) / 1e6}, nil
}

func create(ctx context.Context, b *bench) (result, error) {
	r, err := b.repeat(ctx, func(worker, i int) error {
		return b.do(ctx, worker, http.MethodPost, widgets, typeJSON, widget(fmt.Sprintf("c-%d-%d", worker, i), i, 0), nil)
	})
	if err != nil {
		return r, err
	}
	return r, b.clear(ctx)
}

func get(ctx context.Context, b *bench) (result, error) {
	if err := b.ensure(ctx, "o", b.objects); err != nil {
		return result{}, err
	}
	return b.repeat(ctx, func(worker, i int) error {
		return b.do(ctx, worker, http.MethodGet, fmt.Sprintf("%s/o-%d", widgets, (worker*7919+i)%b.objects), "", nil, nil)
	})
}

func list(query string) func(context.Context, *bench) (result, error) {
	return func(ctx context.Context, b *bench) (result, error) {
		if err := b.ensure(ctx, "o", b.objects); err != nil {
			return result{}, err
		}
		one := func(worker, _ int) error { return b.do(ctx, worker, http.MethodGet, widgets+query, "", nil, nil) }
		return b.repeatLong(ctx, one)
	}
}

// continues finds the token of the next page, which is before the items or after them.
var continues = regexp.MustCompile(`"continue":"([^"]*)"`)

func pages(ctx context.Context, b *bench) (result, error) {
	if err := b.ensure(ctx, "o", b.objects); err != nil {
		return result{}, err
	}
	buffers := make([]bytes.Buffer, b.workers)
	return b.repeatLong(ctx, func(worker, _ int) error {
		for next := ""; ; {
			if err := b.do(ctx, worker, http.MethodGet, widgets+"?limit=500&continue="+next, "", nil, &buffers[worker]); err != nil {
				return err
			}
			page := buffers[worker].Bytes()
			found := continues.FindSubmatch(page[max(0, len(page)-1000):])
			if found == nil {
				found = continues.FindSubmatch(page[:min(1000, len(page))])
			}
			if found == nil || len(found[1]) == 0 {
				return nil
			}
			next = string(found[1])
		}
	})
}

func mergePatch(ctx context.Context, b *bench) (result, error) {
	if err := b.ensure(ctx, "own", b.workers); err != nil {
		return result{}, err
	}
	return b.repeat(ctx, func(worker, i int) error {
		return b.do(ctx, worker, http.MethodPatch, fmt.Sprintf("%s/own-%d", widgets, worker), typeMerge, fmt.Appendf(nil, `{"spec":{"seq":%d}}`, i+1), nil)
	})
}

// applying applies an object whose seq is a function of the number of the request.
func applying(seq func(i int) int) func(context.Context, *bench) (result, error) {
	return func(ctx context.Context, b *bench) (result, error) {
		return b.repeat(ctx, func(worker, i int) error {
			name := fmt.Sprintf("ap-%d", worker)
			return b.do(ctx, worker, http.MethodPatch, widgets+"/"+name+"?fieldManager=peer&force=true", typeApply, widget(name, worker, seq(i)), nil)
		})
	}
}

// held is the memory of one object, with one watcher, by how much memory grows.
func held(memory func(*bench) (int64, error)) func(context.Context, *bench) (result, error) {
	return func(ctx context.Context, b *bench) (result, error) {
		if err := b.clear(ctx); err != nil {
			return result{}, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var delivered atomic.Int64
		revision, err := b.revision(ctx)
		if err != nil {
			return result{}, err
		}
		if err := b.follow(ctx, b.connection(), revision, &delivered); err != nil {
			return result{}, err
		}
		// What only the first writes take, such as the pages of the program that they touch, is not the objects'.
		if err := errors.Join(b.ensure(ctx, "first", b.held/20), b.clear(ctx), pause(ctx, b.settle)); err != nil {
			return result{}, err
		}
		before, err := memory(b)
		if err != nil {
			return result{}, err
		}
		if err := b.ensure(ctx, "held", b.held); err != nil {
			return result{}, err
		}
		if err := pause(ctx, b.settle); err != nil {
			return result{}, err
		}
		after, err := memory(b)
		if err != nil {
			return result{}, err
		}
		return result{value: float64(after-before) / float64(b.held)}, b.clear(ctx)
	}
}

// heapAlloc is the line of a heap profile that has the live heap after a collection.
var heapAlloc = regexp.MustCompile(`# HeapAlloc = (\d+)`)

func (b *bench) liveHeap() (int64, error) {
	var profile bytes.Buffer
	if err := b.do(context.Background(), 0, http.MethodGet, "/debug/pprof/heap?gc=1&debug=1", "", nil, &profile); err != nil {
		return 0, err
	}
	found := heapAlloc.FindSubmatch(profile.Bytes())
	if found == nil {
		return 0, errors.New("the heap profile has no HeapAlloc")
	}
	return strconv.ParseInt(string(found[1]), 10, 64)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// usage is what has been used up to a moment.
type usage struct {
	at                   time.Time
	server, own, machine time.Duration
}

func (b *bench) usage() usage {
	return usage{time.Now(), b.process.cpu(), process(os.Getpid()).cpu(), machine()}
}

// since fills in what n operations have cost since a moment.
func (u usage) since(before usage, n int) result {
	server := u.server - before.server
	other := u.machine - before.machine - server - (u.own - before.own)
	return result{
		value: float64(server.Microseconds()) / float64(max(1, n)),
		other: max(0, other.Seconds()/u.at.Sub(before.at).Seconds()),
	}
}

// repeat has every worker do one operation after the other.
func (b *bench) repeat(ctx context.Context, operation func(worker, i int) error) (result, error) {
	begin := time.Now().Add(b.warmup)
	end := begin.Add(b.duration)
	var mu sync.Mutex
	var times []time.Duration
	var failed error
	var before usage
	var wait sync.WaitGroup
	if before = b.usage(); b.warmup > 0 {
		wait.Go(func() {
			_ = pause(ctx, b.warmup) // the workers see that ctx is done
			before = b.usage()
		})
	}
	for worker := range b.workers {
		wait.Go(func() {
			var own []time.Duration
			var err error
			for i := 0; err == nil && ctx.Err() == nil; i++ {
				start := time.Now()
				if start.After(end) && len(own) > 0 { // one at least, though what began before the measurement took all of it
					break
				}
				err = operation(worker, i)
				if !start.Before(begin) {
					own = append(own, time.Since(start))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if times = append(times, own...); err != nil {
				failed = err
			}
		})
	}
	wait.Wait()
	if failed != nil {
		return result{}, fmt.Errorf("an operation failed: %w", failed)
	}
	if err := ctx.Err(); err != nil {
		return result{}, err
	}
	r := b.usage().since(before, len(times))
	slices.Sort(times)
	if n := len(times); n > 0 {
		r.p50, r.p99 = times[n/2], times[n*99/100]
	}
	return r, nil
}

// resourceVersion is in an answer once, when that is an object.
var resourceVersion = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

// revision makes an object and returns the revision with it.
func (b *bench) revision(ctx context.Context) (string, error) {
	var answer bytes.Buffer
	name := fmt.Sprintf("revision-%d", time.Now().UnixNano())
	if err := b.do(ctx, 0, http.MethodPost, widgets, typeJSON, widget(name, 0, 0), &answer); err != nil {
		return "", err
	}
	found := resourceVersion.FindSubmatch(answer.Bytes())
	if found == nil {
		return "", fmt.Errorf("an object without a revision: %.300s", answer.Bytes())
	}
	return string(found[1]), nil
}

// repeatLong is repeat for an operation that takes so long that those under way when a measurement begins would
// count: it begins with none.
func (b *bench) repeatLong(ctx context.Context, operation func(worker, i int) error) (result, error) {
	if err := operation(0, 0); err != nil {
		return result{}, err
	}
	b.workers, b.warmup = min(b.workers, listers), 0
	return b.repeat(ctx, operation)
}

// follow starts a watch of all changes after a revision, counts them, and returns when it is on.
func (b *bench) follow(ctx context.Context, connection *http.Client, revision string, delivered *atomic.Int64) error {
	r, err := b.request(ctx, http.MethodGet, widgets+"?watch=true&resourceVersion="+revision, "", nil)
	if err != nil {
		return err
	}
	response, err := connection.Do(r) //nolint:bodyclose // who reads it closes it
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return &statusError{code: response.StatusCode}
	}
	go func() {
		defer response.Body.Close()
		memory := make([]byte, 64<<10)
		for {
			n, err := response.Body.Read(memory)
			delivered.Add(int64(bytes.Count(memory[:n], []byte("\n"))))
			if err != nil {
				return
			}
		}
	}()
	return nil
}

// watch is the delivery of one event to one of many watchers; one writer writes 20 times a second.
func watch(ctx context.Context, b *bench) (result, error) {
	const perConnection, objects, rate = 50, 100, 20
	if err := b.clear(ctx); err != nil {
		return result{}, err
	}
	if err := b.ensure(ctx, "fan", objects); err != nil {
		return result{}, err
	}
	revision, err := b.revision(ctx)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var delivered atomic.Int64
	var connection *http.Client
	for i := range b.watchers {
		if i%perConnection == 0 {
			connection = b.connection()
		}
		if err := b.follow(ctx, connection, revision, &delivered); err != nil {
			return result{}, err
		}
	}
	if err := pause(ctx, b.warmup); err != nil {
		return result{}, err
	}
	before, had := b.usage(), delivered.Load()
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	var times []time.Duration
	for i, end := 1, time.Now().Add(b.duration); len(times) == 0 || time.Now().Before(end); i++ {
		<-ticker.C
		start := time.Now()
		if err := b.do(ctx, 0, http.MethodPatch, fmt.Sprintf("%s/fan-%d", widgets, i%objects), typeMerge, fmt.Appendf(nil, `{"spec":{"seq":%d}}`, i), nil); err != nil {
			return result{}, err
		}
		times = append(times, time.Since(start))
	}
	want := had + int64(len(times)*b.watchers)
	for deadline := time.Now().Add(time.Minute); delivered.Load() < want; {
		if time.Now().After(deadline) {
			return result{}, fmt.Errorf("%d of %d events have come", delivered.Load()-had, want-had)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return result{}, err
		}
	}
	r := b.usage().since(before, int(want-had))
	slices.Sort(times)
	r.p50, r.p99 = times[len(times)/2], times[len(times)*99/100]
	return r, nil
}
