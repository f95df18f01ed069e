package etcd3_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
)

// TestLeaseExpires: several objects share a lease of etcd, and when its time is over each is gone, at one revision. All
// who watch, at the cacher or at etcd, see each deletion once and in the order of the others, and what comes after it.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	const objects = 12
	store, client := etcd3test.NewStore(t)
	c, err := cacher.New(cacher.Config{Storage: store, Prefix: storagetest.Prefix, GetAttrs: storagetest.Attrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()

	stays := storagetest.NewObject("stays")
	begin, err := c.Create(ctx, stays.Key(), stays.JSON(), 0)
	if err != nil {
		t.Fatal(err)
	}
	selecting := func(selector string) storage.ListOptions {
		opts := everything()
		opts.ResourceVersion = storage.FormatResourceVersion(begin.ResourceVersion)
		opts.Predicate.GetAttrs = storagetest.Attrs
		if opts.Predicate.Label, err = labels.Parse(selector); err != nil {
			t.Fatal(err)
		}
		return opts
	}
	bare := selecting("")
	bare.Bare = true
	left := func(i int) bool { return i%3 == 0 }
	watches := []*expiring{
		{name: "cacher", from: c, opts: selecting("")},
		{name: "cacher, some", from: c, opts: selecting("side=left"), some: left},
		{name: "etcd", from: store, opts: selecting("")},
		{name: "etcd, some", from: store, opts: selecting("side=left"), some: left},
		{name: "etcd, bare", from: store, opts: bare},
	}
	for _, w := range watches[:len(watches)-1] { // one watches what has been
		w.open(ctx, t)
	}

	// A Store shares a lease where its TTL leaves a second for it, which is long to wait for.
	lease, err := client.Grant(ctx, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		o := storagetest.NewObject(fmt.Sprintf("expires-%02d", i)).Labelled("side", map[bool]string{true: "left", false: "right"}[left(i)])
		if _, err := client.KeepAliveOnce(ctx, lease.ID); err != nil { // all are there before it ends, on a slow machine too
			t.Fatal(err)
		}
		if _, err := client.Put(ctx, o.Key(), string(o.JSON()), clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		for _, w := range watches {
			if w.some == nil || w.some(i) {
				w.keys = append(w.keys, o.Key())
			}
		}
	}
	watches[len(watches)-1].open(ctx, t)

	// Nobody touches the lease any more: etcd ends it.
	at := watches[0].deletions(ctx, t, 0)
	for _, w := range watches[1:] {
		w.deletions(ctx, t, at)
	}
	// Nothing else has come, and all goes on.
	last := storagetest.NewObject("last").Labelled("side", "left")
	row, err := c.Create(ctx, last.Key(), last.JSON(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		if e := w.next(ctx, t); e.Type != storage.Added || e.Row.Key != last.Key() || e.Row.ResourceVersion != row.ResourceVersion {
			t.Errorf("%s: %s %s at %d after the deletions, want that %s was added at %d", w.name, e.Type, e.Row.Key, e.Row.ResourceVersion, last.Key(), row.ResourceVersion)
		}
	}
	for name, from := range map[string]storage.Interface{"cacher": c, "etcd": store} {
		list, err := from.GetList(ctx, storagetest.Prefix, everything())
		if err != nil || len(list.Rows) != 2 || list.Rows[0].Key != last.Key() || list.Rows[1].Key != stays.Key() {
			t.Errorf("%s: %d objects are left, %v, want two", name, len(list.Rows), err)
		}
	}
	if err := c.Check(ctx); err != nil {
		t.Error(err)
	}
}

// expiring is one who watches objects that expire.
type expiring struct {
	name string
	from storage.Interface
	opts storage.ListOptions
	// some says which objects are selected; nil: all.
	some func(i int) bool
	keys []string // of what is selected and expires

	watcher storage.Watcher
	events  []storage.Event
}

func (w *expiring) open(ctx context.Context, t *testing.T) {
	t.Helper()
	watcher, err := w.from.Watch(ctx, storagetest.Prefix, w.opts)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	t.Cleanup(watcher.Stop)
	w.watcher = watcher
}

func (w *expiring) next(ctx context.Context, t *testing.T) storage.Event {
	t.Helper()
	for len(w.events) == 0 {
		events, err := w.watcher.Next(ctx)
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		w.events = append(w.events, events...)
	}
	e := w.events[0]
	w.events = w.events[1:]
	return e
}

// deletions takes the events up to the last deletion, in the order of the keys as etcd removes them, at the revision at;
// 0 is any. It returns that revision.
func (w *expiring) deletions(ctx context.Context, t *testing.T, at uint64) uint64 {
	t.Helper()
	var added uint64
	for _, key := range w.keys {
		e := w.next(ctx, t)
		if e.Type != storage.Added || e.Row.Key != key || e.Row.ResourceVersion <= added {
			t.Fatalf("%s: %s %s at %d, want that %s was added", w.name, e.Type, e.Row.Key, e.Row.ResourceVersion, key)
		}
		added = e.Row.ResourceVersion
	}
	for i, key := range w.keys {
		e := w.next(ctx, t)
		if i == 0 && at == 0 {
			at = e.Row.ResourceVersion
		}
		if e.Type != storage.Deleted || e.Row.Key != key || e.Row.ResourceVersion != at || at <= added {
			t.Fatalf("%s: %s %s at %d, want that %s was deleted at %d", w.name, e.Type, e.Row.Key, e.Row.ResourceVersion, key, at)
		}
		if rv := storage.MetadataString(e.Row.Value.Bytes(), "resourceVersion"); !w.opts.Bare && rv != storage.FormatResourceVersion(at) {
			t.Errorf("%s: the last state of %s is of revision %q, want %d", w.name, key, rv, at)
		}
	}
	return at
}
