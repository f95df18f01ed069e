package controllers

import (
	"hash/maphash"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// identity says which object is meant. The uid alone tells objects apart; the rest says where one is.
type identity struct {
	schema.GroupKind
	namespace, name string
	uid             types.UID
}

// reference is an entry of metadata.ownerReferences.
type reference struct {
	schema.GroupKind
	name   string
	uid    types.UID
	blocks bool // blockOwnerDeletion
}

// at returns the owner that r means when it is in a namespace; "": it is cluster-scoped.
func (r reference) at(namespace string) identity {
	return identity{GroupKind: r.GroupKind, namespace: namespace, name: r.name, uid: r.uid}
}

// means reports whether r, in an object of a namespace, means the object at owner. An owner in another
// namespace is never meant.
func (r reference) means(owner identity, namespace string) bool {
	return r.at(owner.namespace) == owner && (owner.namespace == "" || owner.namespace == namespace)
}

// wait says for what an object whose deletion was requested waits.
type wait uint8

const (
	waitsForNothing wait = iota
	// waitsForDependents: finalizer foregroundDeletion.
	waitsForDependents
	// waitsForOrphans: finalizer orphan.
	waitsForOrphans
)

// lineage is what an object's metadata says of its owners and its end.
type lineage struct {
	identity
	refs     []reference
	deleting bool
	waits    wait
}

// lineageOf reads obj, of which only apiVersion, kind and metadata are looked at. An object without a uid
// has none.
func lineageOf(obj *document.Document) (l lineage, ok bool) {
	m := rest.MetaOf(obj)
	l.identity = identity{GroupKind: rest.KindOf(obj).GroupKind(), namespace: m.Namespace(), name: m.Name(), uid: m.UID()}
	if l.uid == "" || l.Kind == "" || l.name == "" {
		return lineage{}, false
	}
	l.refs = referencesOf(obj)
	if l.deleting = m.Deleting(); l.deleting {
		for _, f := range m.Finalizers() {
			switch {
			case f == metav1.FinalizerOrphanDependents:
				l.waits = waitsForOrphans
			case f == metav1.FinalizerDeleteDependents && l.waits == waitsForNothing:
				l.waits = waitsForDependents
			}
		}
	}
	return l, true
}

func referencesOf(obj *document.Document) []reference {
	owners := obj.Get("metadata", "ownerReferences")
	if owners.Len() == 0 {
		return nil
	}
	refs := make([]reference, 0, owners.Len())
	for _, v := range owners.Elements() {
		blocks, _ := v.Get("blockOwnerDeletion").Bool()
		refs = append(refs, reference{
			GroupKind: schema.FromAPIVersionAndKind(v.Get("apiVersion").String(), v.Get("kind").String()).GroupKind(),
			name:      v.Get("name").String(), uid: types.UID(v.Get("uid").String()), blocks: blocks,
		})
	}
	return refs
}

// node is an object that has owners or waits for its dependents. No other object is in the graph.
type node struct {
	identity
	edges    []*edge
	deleting bool
	waits    wait
	listing  uint64 // the last one in which it was seen
}

// edge is a reference of a node, in the list of its owner.
type edge struct {
	reference
	node       *node
	owner      *owner
	prev, next *edge
}

// owner is what nodes refer to by its uid. It is forgotten with the last reference.
type owner struct {
	// end is set when its deletion was seen. A uid comes back only with an earlier state of the storage, and that with a listing.
	end *ending
	// seen is the identity under which it was found. Zero: none yet.
	seen  identity
	first *edge
}

// ending is that of an object of a kind, which was stored as a resource. It was seen after a listing began.
type ending struct {
	kind     schema.GroupKind
	resource schema.GroupResource
	listing  uint64
}

// graph knows who depends on whom. It is fed in the order of the writes and puts the uids of objects for
// which there is something to do into the queue.
type graph struct {
	enqueue func(types.UID) // never calls back

	mu     sync.Mutex
	nodes  map[types.UID]*node  // guarded by mu
	owners map[types.UID]*owner // guarded by mu
	// listing counts the listings; present holds, while one is under way, the hashes of the identities in it,
	// else nil. guarded by mu
	listing uint64
	present map[uint64]struct{}
	// foreign has the hashes of the identities of objects that are there though no request finds them, and the last
	// listing in which each was seen. guarded by mu
	foreign map[uint64]uint64
	seed    maphash.Seed
}

func newGraph(enqueue func(types.UID)) *graph {
	return &graph{enqueue: enqueue, nodes: map[types.UID]*node{}, owners: map[types.UID]*owner{}, foreign: map[uint64]uint64{}, seed: maphash.MakeSeed()}
}

// begin starts a listing of all objects, each of which is put until end is called.
func (g *graph) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listing++
	g.present = map[uint64]struct{}{}
}

// end finishes a listing: what was not in it is forgotten, owners that were not in it are to be
// verified, and what waits is looked at. That a row is not listed does not say that it is gone: it may be one that cannot be read.
func (g *graph) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	present := g.present
	g.present = nil
	for _, n := range g.nodes {
		if n.listing != g.listing {
			delete(g.nodes, n.uid)
			g.unlinkLocked(n)
		}
	}
	has := func(id identity) bool {
		_, ok := present[maphash.Comparable(g.seed, id)]
		return ok
	}
	for hash, listing := range g.foreign {
		// One that requests find too, such as where the rows of a resource were copied to another etcd, is no foreign one.
		if _, ok := present[hash]; ok || listing != g.listing {
			delete(g.foreign, hash)
		}
	}
	for _, o := range g.owners {
		if o.seen != (identity{}) && !has(o.seen) {
			o.seen = identity{}
		}
		for e := o.first; e != nil; e = e.next {
			if o.seen != (identity{}) {
				break
			}
			for _, namespace := range []string{e.node.namespace, ""} {
				if id := e.at(namespace); has(id) {
					o.seen = id
				}
			}
		}
		for e := o.first; e != nil; e = e.next {
			if !e.means(o.seen, e.node.namespace) {
				g.enqueue(e.node.uid)
			}
		}
	}
	for _, n := range g.nodes {
		g.startWaitingLocked(n)
	}
}

// putForeign says that an object is there that no request finds.
func (g *graph) putForeign(id identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.foreign[maphash.Comparable(g.seed, id)] = g.listing
}

// removeForeign says that an object is not a foreign one any more. Its dependents are looked at, unless it is there otherwise.
func (g *graph) removeForeign(id identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.forgetForeignLocked(id) {
		return
	}
	if o := g.owners[id.uid]; o != nil {
		for e := o.first; e != nil; e = e.next {
			if !e.means(o.seen, e.node.namespace) {
				g.enqueue(e.node.uid)
			}
		}
	}
}

// forgetForeignLocked reports whether an object was a foreign one, which it is no more.
func (g *graph) forgetForeignLocked(id identity) bool {
	if len(g.foreign) == 0 {
		return false
	}
	hash := maphash.Comparable(g.seed, id)
	_, was := g.foreign[hash]
	delete(g.foreign, hash)
	return was
}

// isForeignLocked reports whether the owner that r means, in an object of a namespace, is a foreign one.
func (g *graph) isForeignLocked(r reference, namespace string) bool {
	if len(g.foreign) == 0 {
		return false
	}
	_, there := g.foreign[maphash.Comparable(g.seed, r.at(namespace))]
	if !there {
		_, there = g.foreign[maphash.Comparable(g.seed, r.at(""))]
	}
	return there
}

// put brings the graph up to date with an object as it is now.
func (g *graph) put(l lineage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.present != nil {
		g.present[maphash.Comparable(g.seed, l.identity)] = struct{}{}
	} else {
		g.forgetForeignLocked(l.identity) // requests find it now
	}
	if o := g.owners[l.uid]; o != nil {
		o.end = nil // the storage was restored
	}
	n := g.nodes[l.uid]
	if len(l.refs) == 0 && l.waits == waitsForNothing {
		if n != nil {
			g.unlinkLocked(n)
			delete(g.nodes, l.uid)
		}
		return
	}
	if n == nil {
		n = &node{identity: l.identity}
		g.nodes[l.uid] = n
	}
	n.listing, n.deleting = g.listing, l.deleting
	g.linkLocked(n, l.refs)
	if n.waits != l.waits {
		n.waits = l.waits
		if g.present == nil {
			g.startWaitingLocked(n)
		}
	}
}

// startWaitingLocked has a node that waits, and what it waits for, looked at.
func (g *graph) startWaitingLocked(n *node) {
	if n.waits == waitsForNothing {
		return
	}
	g.enqueue(n.uid)
	if o := g.owners[n.uid]; o != nil && n.waits == waitsForDependents {
		for e := o.first; e != nil; e = e.next {
			g.enqueue(e.node.uid)
		}
	}
}

// linkLocked makes refs the references of n.
func (g *graph) linkLocked(n *node, refs []reference) {
	if sameReferences(n.edges, refs) {
		return
	}
	g.unlinkLocked(n)
	n.edges = make([]*edge, 0, len(refs))
	verify := false
	for _, r := range refs {
		o := g.owners[r.uid]
		if o == nil {
			o = &owner{}
			g.owners[r.uid] = o
		}
		e := &edge{reference: r, node: n, owner: o, next: o.first}
		if o.first != nil {
			o.first.prev = e
		}
		o.first = e
		n.edges = append(n.edges, e)
		waiting := g.nodes[r.uid]
		verify = verify || o.end != nil || !r.means(o.seen, n.namespace) || waiting != nil && waiting.waits == waitsForDependents
	}
	if verify && g.present == nil {
		g.enqueue(n.uid)
	}
}

func sameReferences(edges []*edge, refs []reference) bool {
	if len(edges) != len(refs) {
		return false
	}
	for i, e := range edges {
		if e.reference != refs[i] {
			return false
		}
	}
	return true
}

// unlinkLocked takes the references of n away. An owner that waits for its dependents may be free now.
func (g *graph) unlinkLocked(n *node) {
	for _, e := range n.edges {
		if e.prev != nil {
			e.prev.next = e.next
		} else {
			e.owner.first = e.next
		}
		if e.next != nil {
			e.next.prev = e.prev
		}
		if waiting := g.nodes[e.uid]; waiting != nil && waiting.waits != waitsForNothing {
			g.enqueue(e.uid)
		}
		if e.owner.first == nil {
			delete(g.owners, e.uid)
		}
	}
	n.edges = nil
}

// remove says that an object of a kind is gone, which was stored as a resource.
func (g *graph) remove(uid types.UID, kind schema.GroupKind, resource schema.GroupResource) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owners[uid]; o != nil {
		o.end, o.seen = &ending{kind, resource, g.listing}, identity{}
		for e := o.first; e != nil; e = e.next {
			g.enqueue(e.node.uid)
		}
	}
	if n := g.nodes[uid]; n != nil {
		delete(g.nodes, uid)
		g.unlinkLocked(n)
	}
}

// found notes that the owner at id is there. o is what solid returned before it was looked up.
func (g *graph) found(o *owner, id identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	// A deletion that was seen before the last listing is of a past that a restored storage has lost.
	if o != nil && (o.end == nil || o.end.listing != g.listing) && g.owners[id.uid] == o {
		o.end, o.seen = nil, id
	}
}

// node returns a copy of what is known of an object, without its edges.
func (g *graph) node(uid types.UID) (node, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return node{}, false
	}
	return node{identity: n.identity, deleting: n.deleting, waits: n.waits}, true
}

// solid reports whether the owner that r means, in an object of a namespace, is there and does not wait for its dependents to go, for
// all that is known. Where it does not, storage is to be asked: what was seen to go or to wait may be of a past that a restored
// storage has lost. The owner returned is for found.
func (g *graph) solid(r reference, namespace string) (bool, *owner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.owners[r.uid]
	if g.isForeignLocked(r, namespace) {
		return true, o
	}
	if o == nil || !r.means(o.seen, namespace) {
		return false, o
	}
	n := g.nodes[r.uid]
	return n == nil || n.waits != waitsForDependents, o
}

// ended reports whether the end of the owner that r means was seen, and no listing since has it, and what it was stored as.
func (g *graph) ended(r reference, o *owner) (resource schema.GroupResource, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o == nil || o.end == nil || o.end.kind != r.GroupKind || g.present != nil { // which may still come to it
		return schema.GroupResource{}, false
	}
	return o.end.resource, true
}

// dependents returns those of an object, each once, for which keep is true.
func (g *graph) dependents(uid types.UID, keep func(*edge) bool) []identity {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.owners[uid]
	if o == nil {
		return nil
	}
	var out []identity
	for e := o.first; e != nil; e = e.next {
		// The edges of one node to one owner are neighbours: they were linked together.
		if keep(e) && (len(out) == 0 || out[len(out)-1].uid != e.node.uid) {
			out = append(out, e.node.identity)
		}
	}
	return out
}

// anyDependent reports whether any is true for a dependent of an object.
func (g *graph) anyDependent(uid types.UID, any func(*edge) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owners[uid]; o != nil {
		for e := o.first; e != nil; e = e.next {
			if any(e) {
				return true
			}
		}
	}
	return false
}

// size returns how many objects and owners are known.
func (g *graph) size() (nodes, owners int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.nodes), len(g.owners)
}
