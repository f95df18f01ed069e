package loader_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	hammerWriters  = 8
	hammerWatchers = 8
)

// Contract 1 and 2, while everything moves: writers write, watchers watch, and a module is replaced again and again. No
// request fails, none meets two versions of the module, every watcher sees every event once and in order, and nothing
// of the old versions is left.
func TestHammer(t *testing.T) {
	swaps := 200
	if testing.Short() {
		swaps = 20
	}
	f := start(t)
	f.ready(t, modules, module("stamp", inline(stamp("0000"))))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	h := &hammer{fixture: f, maps: f.client.Resource(configMaps).Namespace("default")}
	list, err := h.maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine() // after the first use of the cache, which starts then

	watching, stop := context.WithCancel(t.Context())
	var watchers, writers sync.WaitGroup
	defer func() { // also where the test ends early
		h.done.Store(true)
		writers.Wait()
		stop()
		watchers.Wait()
	}()
	for i := range hammerWatchers {
		h.seen[i].moved = make(chan struct{}, 1)
		body := h.watch(watching, t, list.GetResourceVersion())
		watchers.Go(func() { h.seen[i].read(t, body) })
	}
	for i := range hammerWriters {
		writers.Go(func() { h.write(t, i) })
	}
	h.swap(t, swaps)
	h.done.Store(true)
	writers.Wait()
	for i := range h.seen {
		h.seen[i].await(t, int(h.events.Load()))
	}
	stop()
	watchers.Wait()
	h.check(t)

	if n := f.metric(t, `weir_configuration_loads_total{kind="Module",result="accepted"}`); n != float64(swaps+1) {
		t.Errorf("%v modules were loaded, want %d", n, swaps+1)
	}
	f.loaded(t, 1)
	f.Client().CloseIdleConnections()
	eventually(t, func() (bool, any) {
		n := runtime.NumGoroutine()
		// A connection keeps some for its next requests.
		return n <= goroutines+40, fmt.Sprintf("%d goroutines, %d before", n, goroutines)
	})
	t.Logf("%d events to each of %d watchers, %d versions served", h.events.Load(), hammerWatchers, len(h.versions))
}

type hammer struct {
	*fixture
	maps   dynamic.ResourceInterface
	done   atomic.Bool
	events atomic.Int64
	seen   [hammerWatchers]sequence

	mu       sync.Mutex
	written  []sighting      // guarded by mu; without the deletions, whose revision is not told
	versions map[string]bool // guarded by mu
}

// sighting is one event.
type sighting struct{ kind, name, resourceVersion string }

// swap replaces the module, each time by another version, and waits until that is in force.
func (h *hammer) swap(t *testing.T, swaps int) {
	w, err := h.client.Resource(modules).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=stamp"})
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Stop()
	for i := range swaps {
		generation := h.put(t, modules, module("stamp", inline(stamp(fmt.Sprintf("%04d", i+1))))).GetGeneration()
		for e := range w.ResultChan() {
			obj, ok := e.Object.(*unstructured.Unstructured)
			if !ok || e.Type == watch.Error {
				t.Errorf("watch of the module: %v", e.Object)
				return
			}
			c := condition(obj, "Ready")
			if c.ObservedGeneration == generation && c.Status == metav1.ConditionTrue {
				break
			}
			if c.Status == metav1.ConditionFalse {
				t.Errorf("version %d: %s", i+1, c.Message)
				return
			}
		}
	}
}

// write creates, updates and deletes objects.
func (h *hammer) write(t *testing.T, writer int) {
	for i := 0; !h.done.Load(); i++ {
		name := fmt.Sprintf("w%d-%d", writer, i)
		obj, err := h.maps.Create(t.Context(), configMap(name, "mine"), metav1.CreateOptions{})
		if err != nil {
			t.Errorf("create: %v", err)
			return
		}
		h.wrote("ADDED", obj)
		if err := unstructured.SetNestedField(obj.Object, "two", "data", "n"); err != nil {
			t.Error(err)
			return
		}
		if obj, err = h.maps.Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update: %v", err)
			return
		}
		h.wrote("MODIFIED", obj)
		if err := h.maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete: %v", err)
			return
		}
		h.events.Add(1)
	}
}

func (h *hammer) wrote(kind string, obj *unstructured.Unstructured) {
	v, _, _ := unstructured.NestedString(obj.Object, "data", "v")
	h.events.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written = append(h.written, sighting{kind, obj.GetName(), obj.GetResourceVersion()})
	if h.versions == nil {
		h.versions = map[string]bool{}
	}
	h.versions[v] = true
}

// watch opens a watch behind a revision.
func (h *hammer) watch(ctx context.Context, t *testing.T, resourceVersion string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		h.URL()+"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion="+resourceVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := h.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return resp
}

// sequence is what one watcher saw.
type sequence struct {
	mu     sync.Mutex
	events []sighting // guarded by mu
	moved  chan struct{}
}

func (s *sequence) read(t *testing.T, resp *http.Response) {
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Type   string
			Object struct {
				Metadata struct{ Name, ResourceVersion string }
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Type == "ERROR" {
			t.Errorf("event %s: %v", lines.Bytes(), err)
			return
		}
		s.mu.Lock()
		s.events = append(s.events, sighting{e.Type, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion})
		s.mu.Unlock()
		select {
		case s.moved <- struct{}{}:
		default:
		}
	}
}

// await waits for so many events. A busy machine may be long in bringing all; where one is lost, in the end none comes any more.
func (s *sequence) await(t *testing.T, n int) {
	t.Helper()
	for {
		s.mu.Lock()
		have := len(s.events)
		s.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-s.moved:
		case <-time.After(patience):
			t.Fatalf("a watcher saw %d of %d events", have, n)
		}
	}
}

// check compares what each watcher saw with what was written.
func (h *hammer) check(t *testing.T) {
	t.Helper()
	written := map[sighting]bool{}
	for _, w := range h.written {
		written[w] = true
	}
	first := h.seen[0].events
	last, deleted := uint64(0), map[string]bool{}
	for _, e := range first {
		var rv uint64
		if _, err := fmt.Sscan(e.resourceVersion, &rv); err != nil || rv <= last {
			t.Fatalf("event %v after revision %d", e, last)
		}
		last = rv
		switch {
		case e.kind == "DELETED" && !deleted[e.name]:
			deleted[e.name] = true
		case written[e]:
			delete(written, e)
		default:
			t.Fatalf("event %v was not written, or came twice", e)
		}
	}
	if len(written) > 0 {
		t.Errorf("%d writes had no event", len(written))
	}
	for i := range h.seen {
		if !slices.Equal(h.seen[i].events, first) {
			t.Errorf("watcher %d saw other events than watcher 0", i)
		}
	}
	if len(h.versions) < 2 {
		t.Errorf("only the versions %v served", h.versions)
	}
}
