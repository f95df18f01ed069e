package registry

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

// onEtcd is a store with a cacher, of which change may change what it is made of.
func onEtcd(t *testing.T, client *clientv3.Client, change func(*cacher.Config)) *Store {
	t.Helper()
	const prefix = "/registry/example.com/widgets"
	rows, err := etcd3.New(etcd3.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	attrs, err := AttrFunc(true, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := cacher.Config{Storage: rows, Prefix: prefix + "/", GetAttrs: attrs}
	change(&config)
	cache, err := cacher.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Stop)
	s, err := New(Config{Resource: widgets, Prefix: prefix, Storage: cache, Strategy: widgetStrategy(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unfilled is a storage whose whole lists fail, which is what caches are filled with: a list for a client has a limit here.
type unfilled struct {
	storage.Interface
	limit int64
}

func (u unfilled) GetList(ctx context.Context, key string, opts storage.ListOptions) (storage.List, error) {
	if opts.Predicate.Limit != u.limit {
		return storage.List{}, &storage.Error{Code: storage.ErrCodeTimeout}
	}
	return u.Interface.GetList(ctx, key, opts)
}

// While a cache is not filled, gets, and lists with a limit and without a selector, are answered by the storage; the
// others are told to come back.
func TestNotReady(t *testing.T) {
	const limit = 3
	s := onEtcd(t, etcd3test.New(t), func(c *cacher.Config) {
		c.Storage, c.ReadyTimeout = unfilled{c.Storage, limit}, 100*time.Millisecond
	})
	ctx := inNamespace(t, "default")
	mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	for _, rv := range []string{"", "0"} {
		if _, err := s.Get(ctx, "a", &metav1.GetOptions{ResourceVersion: rv}); err != nil {
			t.Errorf("get at %q: %v", rv, err)
		}
	}
	if list, err := s.List(ctx, &internalversion.ListOptions{Limit: limit}); err != nil || len(list.Items) != 1 {
		t.Errorf("list with a limit: %v", err)
	}
	selector := labels.SelectorFromSet(labels.Set{"a": "b"})
	tests := []struct {
		name string
		ask  func() error
	}{
		{"list", func() error { _, err := s.List(ctx, nil); return err }},
		{"list at 0", func() error { _, err := s.List(ctx, &internalversion.ListOptions{ResourceVersion: "0"}); return err }},
		{"list with a limit and a selector", func() error {
			_, err := s.List(ctx, &internalversion.ListOptions{Limit: limit, LabelSelector: selector})
			return err
		}},
		{"watch", func() error {
			w, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: "0"})
			if err == nil {
				w.Stop()
			}
			return err
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			status := wantStatus(t, tc.ask(), 429)
			if status.Details == nil || status.Details.RetryAfterSeconds < 1 {
				t.Errorf("no word of when to come back: %+v", status)
			}
		})
	}
}

// countedKV counts transactions, and reads of one key.
type countedKV struct {
	clientv3.KV
	key        string
	gets, txns atomic.Int32
}

func (c *countedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if key == c.key {
		c.gets.Add(1)
	}
	return c.KV.Get(ctx, key, opts...)
}

func (c *countedKV) Txn(ctx context.Context) clientv3.Txn {
	c.txns.Add(1)
	return c.KV.Txn(ctx)
}

// An update asks etcd once, and once more for each write that came before it: that transaction brings what it found.
func TestUpdateAsksOnce(t *testing.T) {
	client := etcd3test.New(t)
	counted := &countedKV{KV: client.KV, key: "/registry/example.com/widgets/default/a"}
	client.KV = counted
	s := onEtcd(t, client, func(*cacher.Config) {})
	ctx := inNamespace(t, "default")
	latest := mustCreate(t, s, ctx, widget(t, `"name":"a"`, `{}`))
	w, err := s.Watch(ctx, &internalversion.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	seen := ""
	catchUp := func() { // what the cache tells it has
		t.Helper()
		for seen != rest.MetaOf(latest).ResourceVersion() {
			events, err := w.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			seen = events[len(events)-1].ResourceVersion
		}
	}
	for conflicts := range 3 {
		catchUp()
		gets, txns := counted.gets.Load(), counted.txns.Load()
		left := conflicts
		latest = mustUpdate(t, s, ctx, "a", rest.UpdateFunc(func(_ context.Context, old *document.Document) (*document.Document, error) {
			if left > 0 {
				left--
				catchUp()
				latest = mustUpdate(t, s, ctx, "a", edit(int64(10*conflicts+left), "spec", "other"))
			}
			return old.Edit().Set(int64(conflicts), "spec", "n").Document()
		}))
		// Each of the others is a transaction, too.
		if got := counted.txns.Load() - txns; got != int32(1+2*conflicts) {
			t.Errorf("%d conflicts: %d transactions", conflicts, got)
		}
		if got := counted.gets.Load() - gets; got != 0 {
			t.Errorf("%d conflicts: %d reads", conflicts, got)
		}
	}
}
