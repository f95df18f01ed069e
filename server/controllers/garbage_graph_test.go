package controllers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
)

func parse(t testing.TB, text string) *document.Document {
	t.Helper()
	obj, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestLineageOf(t *testing.T) {
	const meta = `"name":"n","namespace":"ns","uid":"u"`
	id := identity{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, namespace: "ns", name: "n", uid: "u"}
	tests := []struct {
		name, meta string
		want       lineage
	}{
		{"plain", meta, lineage{identity: id}},
		{"owner", meta + `,"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"v","blockOwnerDeletion":true,"controller":true}]`,
			lineage{identity: id, refs: []reference{{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, name: "o", uid: "v", blocks: true}}}},
		{"finalizers without deletion", meta + `,"finalizers":["orphan","foregroundDeletion"]`, lineage{identity: id}},
		{"foreground", meta + `,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["a/b","foregroundDeletion"]`,
			lineage{identity: id, deleting: true, waits: waitsForDependents}},
		{"orphan comes first", meta + `,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["foregroundDeletion","orphan","foregroundDeletion"]`,
			lineage{identity: id, deleting: true, waits: waitsForOrphans}},
		{"null members", meta + `,"deletionTimestamp":null,"finalizers":null,"ownerReferences":null`, lineage{identity: id}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := lineageOf(parse(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{`+tc.meta+`}}`))
			if !ok || got.identity != tc.want.identity || !slices.Equal(got.refs, tc.want.refs) || got.deleting != tc.want.deleting || got.waits != tc.want.waits {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	for _, text := range []string{`{}`, `{"metadata":1}`, `{"kind":"X","metadata":{"name":"n"}}`, `{"metadata":{"name":"n","uid":"u"}}`} {
		if got, ok := lineageOf(parse(t, text)); ok {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

// feed is a graph, what it enqueued, and the objects that it should know.
type feed struct {
	*graph
	queue   map[types.UID]bool
	objects map[types.UID]lineage
}

func newFeed() *feed {
	f := &feed{queue: map[types.UID]bool{}, objects: map[types.UID]lineage{}}
	f.graph = newGraph(func(uid types.UID) { f.queue[uid] = true })
	return f
}

func (f *feed) take() []types.UID {
	var out []types.UID
	for uid := range f.queue {
		out = append(out, uid)
	}
	clear(f.queue)
	slices.Sort(out)
	return out
}

func lineageIn(namespace, name string, refs ...reference) lineage {
	return lineage{identity: identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, namespace: namespace, name: name, uid: types.UID("uid-" + name)}, refs: refs}
}

func refTo(name string, blocks bool) reference {
	return reference{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, name: name, uid: types.UID("uid-" + name), blocks: blocks}
}

func TestGraphEnqueues(t *testing.T) {
	f := newFeed()
	want := func(step string, uids ...types.UID) {
		t.Helper()
		if got := f.take(); !slices.Equal(got, uids) {
			t.Errorf("%s: got %v, want %v", step, got, uids)
		}
	}
	f.begin()
	f.put(lineageIn("ns", "child", refTo("owner", true)))
	f.put(lineageIn("other", "stranger", refTo("owner", true)))
	f.put(lineageIn("ns", "lost", refTo("nobody", false)))
	want("while listing")
	f.put(lineageIn("ns", "owner"))
	f.end()
	want("after listing", "uid-lost", "uid-stranger")

	f.put(lineageIn("ns", "second", refTo("owner", true)))
	want("a dependent of a known owner")
	f.put(lineageIn("ns", "second", refTo("owner", false), refTo("unknown", false)))
	want("a dependent of an unknown owner", "uid-second")
	if solid, o := f.solid(refTo("unknown", false), "ns"); solid {
		t.Error("one that nobody has seen is solid")
	} else {
		f.found(o, refTo("unknown", false).at("ns"))
	}
	if solid, _ := f.solid(refTo("unknown", false), "ns"); !solid {
		t.Error("one that was found is not solid")
	}
	if solid, _ := f.solid(refTo("unknown", false), "other"); solid {
		t.Error("one in another namespace is solid")
	}

	waiting := lineageIn("ns", "owner")
	waiting.deleting, waiting.waits = true, waitsForDependents
	f.put(waiting)
	want("an owner that waits", "uid-child", "uid-owner", "uid-second", "uid-stranger")
	f.put(waiting)
	want("again")
	if solid, _ := f.solid(refTo("owner", false), "ns"); solid {
		t.Error("one that waits is solid")
	}
	f.put(lineageIn("ns", "third", refTo("owner", true)))
	want("a dependent of an owner that waits", "uid-third")
	f.remove("uid-child", schema.GroupKind{}, schema.GroupResource{})
	want("one that the owner waits for is gone", "uid-owner")
	f.put(lineageIn("ns", "third"))
	want("one that the owner waits for is free", "uid-owner")
	f.remove("uid-owner", schema.GroupKind{}, schema.GroupResource{})
	want("the owner is gone", "uid-second", "uid-stranger")
	if solid, o := f.solid(refTo("owner", false), "ns"); solid {
		t.Error("one that is gone is solid")
	} else {
		f.found(o, refTo("owner", false).at("ns")) // by a read that began before
	}
	if solid, _ := f.solid(refTo("owner", false), "ns"); solid {
		t.Error("one that was found before it went is solid")
	}

	f.begin()
	f.put(lineageIn("ns", "second", refTo("owner", false), refTo("unknown", false)))
	f.end()
	want("listed again, owners away", "uid-second")
	f.remove("uid-second", schema.GroupKind{}, schema.GroupResource{})
	if nodes, owners := f.size(); nodes != 0 || owners != 0 {
		t.Errorf("left: %d objects, %d owners", nodes, owners)
	}
}

// After an earlier state was listed an owner counts as what it is there, not as what was seen of it before.
func TestGraphOfRestored(t *testing.T) {
	f := newFeed()
	child := lineageIn("ns", "child", refTo("deleted", true))
	list := func(owners ...string) {
		f.begin()
		f.put(child)
		for _, name := range owners {
			f.put(lineageIn("ns", name))
		}
		f.end()
	}
	want := func(want bool) *owner {
		t.Helper()
		solid, o := f.solid(refTo("deleted", true), "ns")
		if solid != want {
			t.Errorf("solid is %t, want %t", solid, want)
		}
		return o
	}
	list("deleted")
	want(true)
	f.remove("uid-deleted", schema.GroupKind{}, schema.GroupResource{})
	want(false)
	list("deleted")
	want(true)
	f.take()
	f.put(lineageIn("ns", "second", refTo("deleted", true)))
	if got := f.take(); len(got) != 0 {
		t.Errorf("a dependent of an owner that is there again is looked at: %v", got)
	}
	f.remove("uid-deleted", schema.GroupKind{}, schema.GroupResource{})
	f.found(want(false), refTo("deleted", true).at("ns"))
	want(false)
	list()
	f.found(want(false), refTo("deleted", true).at("ns"))
	want(true)
}

// That the end of an owner was seen is remembered over a listing that does not have it: the stream may have broken for any reason.
func TestGraphRemembersTheEnd(t *testing.T) {
	f := newFeed()
	owned := refTo("deleted", true)
	resource := schema.GroupResource{Group: "example.com", Resource: "things"}
	want := func(step string, r reference, want bool) {
		t.Helper()
		_, o := f.solid(r, "ns")
		if got, ended := f.ended(r, o); ended != want || want && got != resource {
			t.Errorf("%s: ended is %t, %v, want %t", step, ended, got, want)
		}
	}
	f.begin()
	f.put(lineageIn("ns", "child", owned))
	f.put(lineageIn("ns", "deleted"))
	f.end()
	want("there", owned, false)
	f.remove("uid-deleted", owned.GroupKind, resource)
	want("gone", owned, true)
	other := owned
	other.Kind = "Other"
	want("a reference to another kind", other, false)
	f.begin()
	f.put(lineageIn("ns", "child", owned))
	want("while it may be listed yet", owned, false)
	f.end()
	want("not listed", owned, true)
	f.begin()
	f.put(lineageIn("ns", "child", owned))
	f.put(lineageIn("ns", "deleted"))
	f.end()
	want("restored", owned, false)
}

// What a listing leaves out, such as a row that cannot be read, is not held for gone: its dependents are looked at, and find it.
func TestGraphOfUnlisted(t *testing.T) {
	f := newFeed()
	middle, child := lineageIn("ns", "middle", refTo("owner", true)), lineageIn("ns", "child", refTo("middle", true))
	list := func(objects ...lineage) {
		f.begin()
		for _, l := range objects {
			f.put(l)
		}
		f.end()
	}
	list(lineageIn("ns", "owner"), middle, child)
	f.take()
	list(lineageIn("ns", "owner"), child)
	if got := f.take(); !slices.Equal(got, []types.UID{"uid-child"}) {
		t.Errorf("%v are looked at", got)
	}
	solid, o := f.solid(refTo("middle", true), "ns")
	if solid {
		t.Error("what is not listed is solid")
	}
	f.found(o, middle.identity)
	if solid, _ := f.solid(refTo("middle", true), "ns"); !solid {
		t.Error("what is not listed was not found")
	}
}

// An owner that no request finds is there until it is gone, until a listing is without it, or until requests find it.
func TestGraphOfForeign(t *testing.T) {
	f := newFeed()
	child, owner := lineageIn("ns", "child", refTo("owner", true)), lineageIn("ns", "owner").identity
	want := func(when string, want bool) {
		t.Helper()
		if solid, _ := f.solid(refTo("owner", true), "ns"); solid != want {
			t.Errorf("%s: solid is %t, want %t", when, solid, want)
		}
	}
	list := func(foreign bool, objects ...lineage) {
		f.begin()
		want("while listing", len(f.foreign) > 0)
		for _, l := range objects {
			f.put(l)
		}
		if foreign {
			f.putForeign(owner)
		}
		f.end()
	}
	list(true, child)
	want("listed", true)
	if solid, _ := f.solid(refTo("owner", true), "other"); solid {
		t.Error("solid in another namespace")
	}
	list(true, child)
	want("listed again", true)
	f.removeForeign(owner)
	f.remove(owner.uid, schema.GroupKind{}, schema.GroupResource{})
	want("gone", false)
	f.putForeign(owner)
	want("seen", true)
	list(false, child)
	want("not listed", false)
	list(true, child, lineageIn("ns", "owner"))
	want("listed twice", true)
	f.remove(owner.uid, schema.GroupKind{}, schema.GroupResource{})
	want("gone where requests find it", false)
}

// After any sequence of changes and listings the graph knows just the objects that it should, and their references.
func TestGraphRandomly(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFeed()
		name := func() string { return fmt.Sprintf("o%d", r.IntN(12)) }
		random := func() lineage {
			l := lineageIn("ns", name())
			for range r.IntN(4) {
				l.refs = append(l.refs, refTo(name(), r.IntN(2) == 0))
			}
			if r.IntN(4) == 0 {
				l.deleting, l.waits = true, wait(r.IntN(3))
			}
			return l
		}
		for range 400 {
			switch r.IntN(20) {
			case 0:
				f.begin()
				for uid, l := range f.objects {
					if r.IntN(3) == 0 {
						delete(f.objects, uid) // it went while nobody looked
						continue
					}
					f.put(l)
				}
				f.end()
			case 1, 2, 3, 4, 5, 6:
				uid := types.UID("uid-" + name())
				delete(f.objects, uid)
				f.remove(uid, schema.GroupKind{}, schema.GroupResource{})
			default:
				l := random()
				f.objects[l.uid] = l
				f.put(l)
			}
			f.check(t)
		}
	}
}

func (f *feed) check(t *testing.T) {
	t.Helper()
	nodes, refs := 0, map[types.UID]int{}
	for _, l := range f.objects {
		if len(l.refs) == 0 && l.waits == waitsForNothing {
			continue
		}
		nodes++
		n := f.nodes[l.uid]
		if n == nil || n.waits != l.waits || !sameReferences(n.edges, l.refs) {
			t.Fatalf("got %+v, want %+v", n, l)
		}
		for _, r := range l.refs {
			refs[r.uid]++
		}
	}
	if len(f.nodes) != nodes || len(f.owners) != len(refs) {
		t.Fatalf("%d objects and %d owners, want %d and %d", len(f.nodes), len(f.owners), nodes, len(refs))
	}
	for uid, want := range refs {
		got := 0
		var prev *edge
		for e := f.owners[uid].first; e != nil; prev, e = e, e.next {
			if e.prev != prev || e.owner != f.owners[uid] || f.nodes[e.node.uid] != e.node {
				t.Fatalf("list of %s is broken at %s", uid, e.node.name)
			}
			got++
		}
		if got != want {
			t.Fatalf("%d references to %s, want %d", got, uid, want)
		}
	}
}

func TestGraphHammer(t *testing.T) {
	var mu sync.Mutex
	queued := 0
	g := newGraph(func(types.UID) { mu.Lock(); queued++; mu.Unlock() })
	var readers, writer sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := refTo(fmt.Sprint(i%10), false)
				if solid, o := g.solid(r, "ns"); !solid && i%2 == 0 {
					g.found(o, r.at("ns"))
				}
				g.node(r.uid)
				g.dependents(r.uid, func(e *edge) bool { return e.blocks })
				g.anyDependent(r.uid, func(*edge) bool { return false })
			}
		})
	}
	writer.Go(func() {
		for i := range 5000 {
			l := lineageIn("ns", fmt.Sprint(i%50), refTo(fmt.Sprint(i%10), i%2 == 0), refTo(fmt.Sprint(i%7), false))
			switch {
			case i%1000 == 0:
				g.begin()
			case i%1000 == 500:
				g.end()
			case i%3 == 0:
				g.remove(l.uid, schema.GroupKind{}, schema.GroupResource{})
				continue
			}
			g.put(l)
		}
	})
	writer.Wait()
	close(stop)
	readers.Wait()
	if queued == 0 {
		t.Error("nothing was enqueued")
	}
}

// BenchmarkGraph is what an update of a dependent costs.
func BenchmarkGraph(b *testing.B) {
	g := newGraph(func(types.UID) {})
	obj := parse(b, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n","namespace":"ns","uid":"u","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"o","uid":"v","blockOwnerDeletion":true}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		l, _ := lineageOf(obj)
		g.put(l)
	}
}
