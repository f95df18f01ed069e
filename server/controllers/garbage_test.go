package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// listedRows gives the objects of widgets and gadgets, then breaks; the last listing stays.
type listedRows struct {
	cluster *cluster
	breaks  int
}

var errBroken = errors.New("broken")

func (r *listedRows) Follow(ctx context.Context, h RowHandler) error {
	h.Begin()
	for _, s := range []rest.Lister{r.cluster.widgets, r.cluster.gadgets} {
		list, err := s.List(ctx, nil)
		if err != nil {
			return err
		}
		for _, obj := range list.Items {
			h.Put(obj)
		}
	}
	if r.breaks--; r.breaks >= 0 {
		return errBroken // in the middle of a listing
	}
	h.End()
	<-ctx.Done()
	return ctx.Err()
}

// A stream that breaks is opened again, and Run ends when its context does.
func TestGarbageFollowsAgain(t *testing.T) {
	c := newCluster(t)
	for _, r := range c.catalog {
		switch r.Name {
		case "widgets":
			r.Kind, r.StorageVersion = "Widget", "v1"
		case "gadgets":
			r.Kind = "Gadget"
		}
	}
	if err := Bootstrap(t.Context(), c.namespaces, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	const owner = `"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Widget","name":"none","uid":"00000000-0000-4000-8000-000000000000"}]`
	c.create(t, c.widgets, "Widget", "a", `"name":"owned",`+owner)
	c.create(t, c.widgets, "Widget", "a", `"name":"free"`)
	c.create(t, c.gadgets, "Gadget", "a", `"name":"unreachable",`+owner)

	garbage, err := NewGarbage(GarbageConfig{
		Rows: &listedRows{cluster: c, breaks: 2},
		Pin:  func() (rest.Catalog, func()) { return c.catalog, func() {} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		garbage.Run(ctx)
		close(done)
	}()
	waitCtx, stop := context.WithTimeout(request.WithNamespace(t.Context(), "a"), 30*time.Second)
	defer stop()
	w, err := c.widgets.Watch(waitCtx, &internalversion.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for gone := false; !gone; {
		events, err := w.Next(waitCtx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			gone = gone || e.Type == "DELETED" && rest.MetaOf(e.Object).Name() == "owned"
		}
	}
	cancel()
	<-done
	for _, s := range []rest.Lister{c.widgets, c.gadgets} {
		list, err := s.List(request.WithNamespace(t.Context(), "a"), nil)
		if err != nil || len(list.Items) != 1 {
			t.Errorf("%d objects are left, want 1, %v", len(list.Items), err)
		}
	}
}

// toldRows is a stream that says what a test says.
type toldRows func(h RowHandler)

func (r toldRows) Follow(ctx context.Context, h RowHandler) error {
	r(h)
	<-ctx.Done()
	return ctx.Err()
}

// newWidgets is a cluster with the namespace a, whose widgets the collector knows.
func newWidgets(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	widgets := c.catalog.Resource("example.com", "widgets")
	widgets.Kind, widgets.StorageVersion = "Widget", "v1"
	if err := Bootstrap(t.Context(), c.namespaces, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// widget returns one of the namespace a.
func (c *cluster) widget(t *testing.T, name string) *document.Document {
	t.Helper()
	obj, err := c.widgets.Get(request.WithNamespace(t.Context(), "a"), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// A dependent stays whose owner is there, whatever was seen of it: the storage may have been restored from an earlier state since,
// and a row that cannot be read is in no listing.
func TestGarbageAsksBeforeItDeletes(t *testing.T) {
	for _, seen := range []string{"gone", "waiting", "orphaning", "not listed"} {
		t.Run(seen, func(t *testing.T) {
			c := newWidgets(t)
			ctx := request.WithNamespace(t.Context(), "a")
			create := func(name string, owner types.UID, ownerName string) *document.Document {
				c.create(t, c.widgets, "Widget", "a", `"name":"`+name+`","ownerReferences":[{"apiVersion":"example.com/v1","blockOwnerDeletion":true,"kind":"Widget","name":"`+ownerName+`","uid":"`+string(owner)+`"}]`)
				return c.widget(t, name)
			}
			c.create(t, c.widgets, "Widget", "a", `"name":"root"`)
			root := c.widget(t, "root")
			owner := create("owner", rest.MetaOf(root).UID(), "root")
			child := create("child", rest.MetaOf(owner).UID(), "owner")
			orphan := create("orphan", "00000000-0000-4000-8000-000000000000", "none")
			garbage, err := NewGarbage(GarbageConfig{
				Workers: 1, // in their order
				Pin:     func() (rest.Catalog, func()) { return c.catalog, func() {} },
				Rows: toldRows(func(h RowHandler) {
					list := func(objects ...*document.Document) {
						h.Begin()
						for _, obj := range objects {
							h.Put(obj)
						}
						h.End()
					}
					list(root, owner, child)
					switch seen {
					case "gone":
						h.Remove(schema.GroupResource{Group: "example.com", Resource: "widgets"}, owner)
					case "waiting", "orphaning":
						finalizer := map[string]string{"waiting": "foregroundDeletion", "orphaning": "orphan"}[seen]
						waiting, err := owner.Edit().Set([]any{finalizer}, "metadata", "finalizers").
							Set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp").Document()
						if err != nil {
							t.Error(err)
						}
						h.Put(waiting)
					case "not listed":
						list(root, child)
					}
					h.Put(orphan)
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			w, err := c.widgets.Watch(ctx, &internalversion.ListOptions{ResourceVersion: rest.MetaOf(orphan).ResourceVersion()})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			running, cancel := context.WithCancel(t.Context())
			var run sync.WaitGroup
			defer run.Wait()
			defer cancel()
			run.Go(func() { garbage.Run(running) })
			waiting, stop := context.WithTimeout(ctx, time.Minute)
			defer stop()
			for {
				events, err := w.Next(waiting)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					switch name := rest.MetaOf(e.Object).Name(); {
					case name == "orphan" && e.Type == "DELETED":
						return
					case name == "child":
						t.Errorf("%s %s", e.Type, e.Object.Bytes())
					}
				}
			}
		})
	}
}

// A dependent of an owner that waits for it is judged when the collector has been told that the owner waits, and with it of all that
// was there: until then it may not know what depends on the dependent.
func TestGarbageForegroundAhead(t *testing.T) {
	c := newWidgets(t)
	ctx := request.WithNamespace(t.Context(), "a")
	get := func(name string) *document.Document { return c.widget(t, name) }
	create := func(name, owner string, uid types.UID, more string) *document.Document {
		t.Helper()
		c.create(t, c.widgets, "Widget", "a", `"name":"`+name+`",`+more+`"ownerReferences":[{"apiVersion":"example.com/v1","blockOwnerDeletion":true,"kind":"Widget","name":"`+owner+`","uid":"`+string(uid)+`"}]`)
		return get(name)
	}
	c.create(t, c.widgets, "Widget", "a", `"name":"owner"`)
	child := create("child", "owner", rest.MetaOf(get("owner")).UID(), "")
	grandchild := create("grandchild", "child", rest.MetaOf(child).UID(), `"finalizers":["example.com/f"],`)
	orphan := create("orphan", "none", "00000000-0000-4000-8000-000000000000", "")
	foreground := metav1.DeletePropagationForeground
	if _, _, err := c.widgets.Delete(ctx, "owner", nil, &metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	owner := get("owner")
	looked := make(chan struct{})
	running, cancel := context.WithCancel(t.Context())
	defer cancel()
	garbage, err := NewGarbage(GarbageConfig{
		Workers: 1, // in their order
		Pin:     func() (rest.Catalog, func()) { return c.catalog, func() {} },
		Rows: toldRows(func(h RowHandler) {
			h.Begin()
			h.End()
			h.Put(child)
			h.Put(orphan)
			select {
			case <-looked:
			case <-running.Done():
				return
			}
			h.Put(grandchild)
			h.Put(owner)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.widgets.Watch(ctx, &internalversion.ListOptions{ResourceVersion: rest.MetaOf(owner).ResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	run.Go(func() { garbage.Run(running) })
	waiting, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for _, want := range []string{"DELETED orphan []", "MODIFIED child [foregroundDeletion]"} {
		events, err := w.Next(waiting)
		if err != nil || len(events) != 1 {
			t.Fatalf("%d events, %v, want %s", len(events), err, want)
		}
		m := rest.MetaOf(events[0].Object)
		if got := fmt.Sprint(events[0].Type, " ", m.Name(), " ", m.Finalizers()); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		if m.Name() == "orphan" {
			close(looked)
		}
	}
}

// What an object owned goes with its definition also where the collector never saw the kind served: all of it may be over
// before the collector hears of anything.
func TestGarbageOfUnseenDefinition(t *testing.T) {
	for _, goes := range []string{"before", "while it is asked for", "later"} {
		t.Run("the definition goes "+goes, func(t *testing.T) {
			c := newWidgets(t)
			definition := answers{errors: map[string]error{}}
			c.catalog = append(c.catalog, &rest.Resource{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "customresourcedefinitions",
				Versions: []*rest.Version{{Name: "v1", Storage: &definition}}})
			if goes != "before" {
				definition.errors["gones.example.org"] = nil
			}
			c.create(t, c.widgets, "Widget", "a", `"name":"child","ownerReferences":[{"apiVersion":"example.org/v1","kind":"Gone","name":"owner","uid":"o"}]`)
			ctx, cancel := context.WithCancel(request.WithNamespace(t.Context(), "a"))
			child := c.widget(t, "child")
			w, err := c.widgets.Watch(ctx, &internalversion.ListOptions{ResourceVersion: rest.MetaOf(child).ResourceVersion()})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			var garbage *Garbage
			garbage, err = NewGarbage(GarbageConfig{
				Workers: 1,
				Pin:     func() (rest.Catalog, func()) { return c.catalog, func() {} },
				Rows: toldRows(func(h RowHandler) {
					h.Begin()
					h.Put(child)
					h.End()
					undefine := func() {
						definition.forget("gones.example.org")
						h.Remove(definitions, parse(t, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gones.example.org","uid":"d"}}`))
					}
					if goes == "while it is asked for" {
						definition.asked = sync.OnceFunc(undefine)
					}
					h.Remove(schema.GroupResource{Group: "example.org", Resource: "gones"},
						parse(t, `{"apiVersion":"example.org/v1","kind":"Gone","metadata":{"name":"owner","namespace":"a","uid":"o"}}`))
					if goes != "later" {
						return
					}
					for parked := 0; parked == 0 && ctx.Err() == nil; {
						time.Sleep(time.Millisecond) // a poll: nobody is told of what is parked
						garbage.mu.Lock()
						parked = len(garbage.parked)
						garbage.mu.Unlock()
					}
					undefine()
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			var run sync.WaitGroup
			defer run.Wait()
			defer cancel()
			run.Go(func() { garbage.Run(ctx) })
			waiting, stop := context.WithTimeout(ctx, 30*time.Second)
			defer stop()
			events, err := w.Next(waiting)
			if err != nil || len(events) != 1 || events[0].Type != "DELETED" {
				t.Fatalf("%v, %v, want the end of the child", events, err)
			}
		})
	}
}

// What waits for a kind that is not served is forgotten with the object.
func TestGarbageForgetsParked(t *testing.T) {
	garbage, err := NewGarbage(GarbageConfig{Workers: 1, Rows: toldRows(nil), Pin: func() (rest.Catalog, func()) { return catalog(nil), func() {} }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	parked := func() bool {
		garbage.mu.Lock()
		defer garbage.mu.Unlock()
		_, ok := garbage.parked["u"]
		return ok
	}
	await := func(want bool) {
		for parked() != want && ctx.Err() == nil {
			time.Sleep(time.Millisecond) // a poll: nobody is told of what is parked
		}
	}
	obj := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"a","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Nothing","name":"o","uid":"o"}],"uid":"u"}}`)
	ended := make(chan struct{})
	garbage.cfg.Rows = toldRows(func(h RowHandler) {
		defer close(ended)
		list := func(objects ...*document.Document) {
			h.Begin()
			for _, obj := range objects {
				h.Put(obj)
			}
			h.End()
		}
		list(obj)
		await(true)
		h.Remove(schema.GroupResource{Resource: "configmaps"}, obj)
		if parked() {
			t.Error("still parked when it is gone")
		}
		list(obj)
		await(true)
		list()
		await(false)
	})
	run.Go(func() { garbage.Run(ctx) })
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("what a listing was without stays parked")
	}
}

// changing is a catalog with a generation that gets resources.
type changing struct {
	catalog
	generation uint64
}

func (c changing) Generation() uint64 { return c.generation }

// What waits for a kind is looked at again when it is served, or its definition gone, and not whenever the catalog is another one.
func TestGarbageUnparksWhatItCanDo(t *testing.T) {
	now := changing{generation: 1}
	garbage, err := NewGarbage(GarbageConfig{Rows: toldRows(nil), Pin: func() (rest.Catalog, func()) { return now, func() {} }})
	if err != nil {
		t.Fatal(err)
	}
	queued := map[types.UID]bool{}
	garbage.graph = newGraph(func(types.UID) {})
	garbage.queue = &queueOf{added: queued}
	h := rowHandler{garbage}
	gone := schema.GroupResource{Group: "example.com", Resource: "gones"}
	park := func(uid types.UID, needed unknownKindError) {
		garbage.graph.put(lineage{identity: identity{uid: uid, name: string(uid)}, refs: []reference{refTo("owner", true)}})
		garbage.park(uid, &needed, 1, 0)
	}
	park("a", unknownKindError{kind: schema.GroupKind{Group: "example.com", Kind: "Widget"}})
	park("b", unknownKindError{kind: schema.GroupKind{Group: "example.com", Kind: "Gone"}, resource: gone})
	park("c", unknownKindError{kind: schema.GroupKind{Group: "example.com", Kind: "Other"}})
	want := func(step string, uids ...types.UID) {
		t.Helper()
		got := slices.Sorted(maps.Keys(queued))
		if clear(queued); !slices.Equal(got, uids) {
			t.Errorf("%s: %v are looked at, want %v", step, got, uids)
		}
	}
	other := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"a","uid":"u"}}`)
	now.generation = 2
	h.Put(other)
	want("another catalog")
	now = changing{catalog: newCluster(t).catalog, generation: 3}
	for _, r := range now.catalog {
		if r.Name == "widgets" {
			r.Kind = "Widget"
		}
	}
	h.Put(other)
	want("a kind is served", "a")
	definition := func(name string) *document.Document {
		return parse(t, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"`+name+`","uid":"d"}}`)
	}
	h.Remove(definitions, definition("others.example.com"))
	want("another definition is gone")
	h.Remove(definitions, definition(gone.String()))
	want("the definition is gone", "b")
	park("c", unknownKindError{kind: schema.GroupKind{Group: "example.com", Kind: "Other"}})
	want("a definition was gone meanwhile", "c")
}

// queueOf is a queue that remembers what was added.
type queueOf struct {
	workqueue.TypedRateLimitingInterface[types.UID]
	added map[types.UID]bool
}

func (q *queueOf) Add(uid types.UID) { q.added[uid] = true }

// An object that is deleted with propagationPolicy Orphan orphans also dependents of a kind that the server has not heard of yet.
func TestGarbageOrphansWhatIsJustDefined(t *testing.T) {
	c := newCluster(t)
	var early catalog
	for _, r := range c.catalog {
		switch r.Name {
		case "widgets":
			r.Kind, r.StorageVersion = "Widget", "v1"
		case "gadgets":
			r.Kind, r.StorageVersion, r.Versions[0].Storage = "Gadget", "v1", c.gadgets
			continue
		}
		early = append(early, r)
	}
	if err := Bootstrap(t.Context(), c.namespaces, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	ctx := request.WithNamespace(t.Context(), "a")
	c.create(t, c.widgets, "Widget", "a", `"name":"owner"`)
	owner, err := c.widgets.Get(ctx, "owner", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.create(t, c.gadgets, "Gadget", "a", `"name":"child","ownerReferences":[{"apiVersion":"example.com/v1","kind":"Widget","name":"owner","uid":"`+string(rest.MetaOf(owner).UID())+`"}]`)
	orphan := metav1.DeletePropagationOrphan
	if _, _, err := c.widgets.Delete(ctx, "owner", nil, &metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	list, err := c.widgets.List(ctx, nil)
	if err != nil || len(list.Items) != 1 {
		t.Fatal(list, err)
	}
	w, err := c.widgets.Watch(ctx, &internalversion.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var heard atomic.Bool
	garbage, err := NewGarbage(GarbageConfig{
		Rows: &listedRows{cluster: c},
		Pin: func() (rest.Catalog, func()) {
			if heard.Load() {
				return changing{c.catalog, 2}, func() {}
			}
			return changing{early, 1}, func() {}
		},
		WaitDefined: func(context.Context) error { heard.Store(true); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	run.Go(func() { garbage.Run(running) })
	waiting, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	for gone := false; !gone; {
		events, err := w.Next(waiting)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			gone = gone || e.Type == "DELETED"
		}
	}
	if child, err := c.gadgets.Get(ctx, "child", nil); err != nil || child.Get("metadata", "ownerReferences").Exists() {
		t.Errorf("the child is %v, %v", child, err)
	}
}

// One cause that fails thousands of objects is told once.
func TestGarbageTellsFailures(t *testing.T) {
	var log bytes.Buffer
	f := failures{logger: slog.New(slog.NewTextHandler(&log, nil))}
	lines := func(want int, texts ...string) {
		t.Helper()
		got := log.String()
		log.Reset()
		if strings.Count(got, "\n") != want {
			t.Errorf("%d lines, want %d: %s", strings.Count(got, "\n"), want, got)
		}
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("no %q in %s", text, got)
			}
		}
	}
	for i := range 10_000 {
		f.tell(t.Context(), node{identity: identity{name: fmt.Sprint("child", i)}}, errors.New("owner is away"), i)
	}
	lines(1, "name=child0", "owner is away")
	for i := range 100 {
		f.tell(t.Context(), node{}, fmt.Errorf("cause %d", i), 0)
	}
	lines(maxFailuresTold-1, "cause 0")
	f.sum(t.Context())
	lines(1, fmt.Sprint("failures=", 10_000+100-maxFailuresTold))
	f.sum(t.Context())
	lines(0)
	f.tell(t.Context(), node{}, errors.New("owner is away"), 0)
	lines(1)
}

// A finalizer is taken only from an object whose deletion was requested, references only where they are.
func TestGarbageEdits(t *testing.T) {
	const deleting = `"deletionTimestamp":"2026-01-01T00:00:00Z",`
	refs := `[{"apiVersion":"v1","blockOwnerDeletion":true,"kind":"ConfigMap","name":"a","uid":"u"},{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"v"}]`
	withoutOrphan := func(obj *document.Document) (*document.Document, error) { return withoutFinalizer(obj, "orphan") }
	without := func(uids ...types.UID) func(obj *document.Document) (*document.Document, error) {
		return func(obj *document.Document) (*document.Document, error) { return withoutOwners(obj, uids) }
	}
	tests := []struct {
		name, meta, want string
		edit             func(*document.Document) (*document.Document, error)
	}{
		{"last finalizer", deleting + `"finalizers":["orphan"]`, `{"deletionTimestamp":"2026-01-01T00:00:00Z"}`, withoutOrphan},
		{"other finalizers", deleting + `"finalizers":["a/b","orphan","c/d"]`, `{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b","c/d"]}`, withoutOrphan},
		{"not deleted", `"finalizers":["orphan"]`, `{"finalizers":["orphan"]}`, withoutOrphan},
		{"one owner", `"ownerReferences":` + refs, `{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"v"}]}`, without("u")},
		{"all owners", `"ownerReferences":` + refs, `{}`, without("u", "v")},
		{"no owner", `"ownerReferences":` + refs, `{"ownerReferences":` + refs + `}`, without()},
		{"unblocking", `"ownerReferences":` + refs, `{"ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":false,"kind":"ConfigMap","name":"a","uid":"u"},{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":"v"}]}`, unblocking},
		{"nothing blocks", `"name":"x"`, `{"name":"x"}`, unblocking},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := parse(t, `{"metadata":{`+tc.meta+`}}`)
			got, err := tc.edit(obj)
			if err != nil || string(got.Get("metadata").Raw()) != tc.want {
				t.Errorf("got %s, %v, want %s", got.Get("metadata").Raw(), err, tc.want)
			}
			if again, err := tc.edit(got); err != nil || again != got {
				t.Errorf("a second time changes %s", again.Bytes())
			}
		})
	}
}

func TestGarbageConfig(t *testing.T) {
	if _, err := NewGarbage(GarbageConfig{}); err == nil {
		t.Error("empty configuration accepted")
	}
}
