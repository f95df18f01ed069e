package etcd3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
	"weir.dev/weir/server/storage/storagetest"
	"weir.dev/weir/server/storage/value"
)

func newStore(t testing.TB, cfg etcd3.Config) *etcd3.Store {
	t.Helper()
	store, err := etcd3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func everything() storage.ListOptions {
	return storage.ListOptions{Recursive: true, Predicate: storage.Everything}
}

func TestConfig(t *testing.T) {
	client := clientv3.NewCtxClient(t.Context())
	for name, cfg := range map[string]etcd3.Config{
		"no client":           {},
		"relative prefix":     {Client: client, Prefix: "registry"},
		"prefix with a slash": {Client: client, Prefix: "/registry/"},
		"unclean prefix":      {Client: client, Prefix: "/registry/../x"},
		"root":                {Client: client, Prefix: "/"},
		"negative limit":      {Client: client, MaxObjectBytes: -1},
		"negative timeout":    {Client: client, RequestTimeout: -1},
	} {
		if _, err := etcd3.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	newStore(t, etcd3.Config{Client: client})
}

// The rows are upstream's: the object without resourceVersion below /registry.
func TestRows(t *testing.T) {
	client := etcd3test.New(t)
	store := newStore(t, etcd3.Config{Client: client})
	o := storagetest.NewObject("a")
	storagetest.Create(t.Context(), t, store, o)
	resp, err := client.Get(t.Context(), "/registry/configmaps/test/a")
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != string(o.JSON()) {
		t.Errorf("got %v, want %s", resp.Kvs, o.JSON())
	}

	// And upstream's rows are read, and rewritten by an update that changes nothing else.
	key := "/registry/example.com/things/a"
	if _, err := client.Put(t.Context(), key, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","uid":"u"},"spec":"\u003c"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	row, err := store.Get(t.Context(), key, storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"%d","uid":"u"},"spec":"<"}`, row.ResourceVersion)
	if row.Value.String() != want {
		t.Errorf("got %s, want %s", row.Value, want)
	}
	updated, err := store.GuaranteedUpdate(t.Context(), key, storage.UpdateOptions{}, func(current storage.Row) ([]byte, uint64, error) {
		return current.Value.Bytes(), 0, nil
	})
	if err != nil || updated.ResourceVersion <= row.ResourceVersion {
		t.Errorf("got %d, %v, want a rewritten row", updated.ResourceVersion, err)
	}
}

// prefixed is a Transformer that binds a row to its key, and whose rows under an old
// name are stale.
type prefixed struct{ name, old string }

func (p prefixed) TransformToStorage(_ context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return append([]byte(p.name+"|"+string(dataCtx.AuthenticatedData())+"|"), data...), nil
}

func (p prefixed) TransformFromStorage(_ context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	for _, name := range []string{p.name, p.old} {
		if out, ok := bytes.CutPrefix(data, []byte(name+"|"+string(dataCtx.AuthenticatedData())+"|")); ok {
			return out, name != p.name, nil
		}
	}
	return nil, false, errors.New("not ours")
}

// The suite passes with rows that are transformed.
func TestStorageTransformed(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) (storage.Interface, storagetest.Compaction) {
		client := etcd3test.New(t)
		return newStore(t, etcd3.Config{Client: client, Transformer: prefixed{name: "a"}}), etcd3test.Compaction(client)
	})
}

// The suite passes over gRPC, as with an etcd elsewhere.
func TestStorageDialed(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) (storage.Interface, storagetest.Compaction) {
		e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
		client := dial(t, etcd3.DialConfig{Endpoints: []string{e.Addr().String()}})
		return newStore(t, etcd3.Config{Client: client}), etcd3test.Compaction(client)
	})
}

// A row that was written with an old key is rewritten by an update that changes
// nothing, whatever was suggested; a row that was moved to another key is refused.
func TestTransformer(t *testing.T) {
	client := etcd3test.New(t)
	ctx := t.Context()
	o := storagetest.NewObject("a")
	created := storagetest.Create(ctx, t, newStore(t, etcd3.Config{Client: client, Transformer: prefixed{name: "old"}}), o)
	store := newStore(t, etcd3.Config{Client: client, Transformer: prefixed{name: "new", old: "old"}})
	row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: created}, func(current storage.Row) ([]byte, uint64, error) {
		return current.Value.Bytes(), 0, nil
	})
	if err != nil || row.ResourceVersion <= created.ResourceVersion {
		t.Fatalf("got %d, %v, want a rewritten row", row.ResourceVersion, err)
	}
	resp, err := client.Get(ctx, o.Key())
	if err != nil || !strings.HasPrefix(string(resp.Kvs[0].Value), "new|") {
		t.Errorf("got row %v, %v, want it under the new name", resp.Kvs, err)
	}
	again, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: row}, func(current storage.Row) ([]byte, uint64, error) {
		return current.Value.Bytes(), 0, nil
	})
	if err != nil || again.ResourceVersion != row.ResourceVersion {
		t.Errorf("got %d, %v, want no write", again.ResourceVersion, err)
	}

	moved := storagetest.NewObject("moved").Key()
	if _, err := client.Put(ctx, moved, string(resp.Kvs[0].Value)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(ctx, moved, storage.GetOptions{}); storage.CodeOf(err) != storage.ErrCodeCorruptObj {
		t.Errorf("got error %v, want a corrupt object", err)
	}
}

// Rows that cannot be read are named: one by a get, all by a list; they end a watch.
func TestCorrupt(t *testing.T) {
	client := etcd3test.New(t)
	ctx := t.Context()
	store := newStore(t, etcd3.Config{Client: client})
	start := storagetest.Create(ctx, t, store, storagetest.NewObject("good"))
	bad := []string{storagetest.NewObject("bad1").Key(), storagetest.NewObject("bad2").Key()}
	var last uint64
	for _, key := range bad {
		put, err := client.Put(ctx, key, "k8s\x00binary")
		if err != nil {
			t.Fatal(err)
		}
		last = uint64(put.Header.Revision)
	}
	_, err := store.Get(ctx, bad[0], storage.GetOptions{})
	wantCorrupt(t, "get", err, bad[0])
	list, err := store.GetList(ctx, storagetest.Prefix, everything())
	wantCorrupt(t, "list", err, bad...)
	if diff := cmp.Diff(storage.List{Rows: []storage.Row{start}, ResourceVersion: last}, list); diff != "" {
		t.Errorf("beside the error of a list (-want +got):\n%s", diff)
	}
	_, err = store.GuaranteedUpdate(ctx, bad[0], storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) { return nil, 0, nil })
	wantCorrupt(t, "update", err, bad[0])
	_, err = store.Delete(ctx, bad[0], storage.DeleteOptions{})
	wantCorrupt(t, "delete", err, bad[0])

	opts := everything()
	opts.ResourceVersion = fmt.Sprint(start.ResourceVersion)
	for name, opts := range map[string]storage.ListOptions{"initial": everything(), "event": opts} {
		w, err := store.Watch(ctx, storagetest.Prefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for err == nil {
			_, err = w.Next(ctx)
		}
		wantCorrupt(t, name, err, bad[0])
	}
}

// A row whose fault is behind its metadata must not be spliced into a list as it is.
func TestMalformedBehindMetadata(t *testing.T) {
	client := etcd3test.New(t)
	ctx := t.Context()
	store := newStore(t, etcd3.Config{Client: client})
	key := storagetest.NewObject("bad").Key()
	for _, stored := range []string{
		`{"apiVersion":"v1","kind":"X","metadata":{"name":"bad"}garbage}`, `{"apiVersion":"v1","data":{bad},"kind":"X","metadata":{"name":"bad"}}`,
		"{\"apiVersion\":\"v1\",\"data\":\"\xff\",\"metadata\":{\"name\":\"bad\"}}", `{"metadata":{"name":"bad"},"spec":{}}}`,
	} {
		if _, err := client.Put(ctx, key, stored); err != nil {
			t.Fatal(err)
		}
		_, err := store.Get(ctx, key, storage.GetOptions{})
		wantCorrupt(t, "get", err, key)
		_, err = store.GetList(ctx, storagetest.Prefix, everything())
		wantCorrupt(t, "list", err, key)
	}
}

// Keys that are none of a row are not there, wherever a page ends.
func TestForeignKeys(t *testing.T) {
	client := etcd3test.New(t)
	ctx := t.Context()
	store := newStore(t, etcd3.Config{Client: client})
	first := storagetest.Create(ctx, t, store, storagetest.NewObject("a"))
	opts := everything()
	opts.ResourceVersion = fmt.Sprint(first.ResourceVersion)
	events, err := store.Watch(ctx, storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for _, key := range []string{"", "/", "//x", "a//b", "../a", "./a", "a/", "z/"} {
		if _, err := client.Put(ctx, storagetest.Prefix+key, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	storagetest.Create(ctx, t, store, storagetest.NewObject("b"))
	var names []string
	opts = everything()
	opts.Predicate.Limit = 1
	for pages := 0; pages < 10; pages++ {
		list, err := store.GetList(ctx, storagetest.Prefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range list.Rows {
			names = append(names, storage.MetadataString(row.Value.Bytes(), "name"))
		}
		if opts.Predicate.Continue = list.Continue; list.Continue == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	got, err := events.Next(ctx)
	if err != nil || len(got) != 1 || storage.MetadataString(got[0].Row.Value.Bytes(), "name") != "b" {
		t.Errorf("watch: got %v, %v, want b only", got, err)
	}
	initial, err := store.Watch(ctx, storagetest.Prefix, everything())
	if err != nil {
		t.Fatal(err)
	}
	defer initial.Stop()
	if got, err := initial.Next(ctx); err != nil || len(got) != 2 {
		t.Errorf("initial events: got %v, %v, want two", got, err)
	}
}

func wantCorrupt(t *testing.T, what string, err error, keys ...string) {
	t.Helper()
	if storage.CodeOf(err) != storage.ErrCodeCorruptObj {
		t.Errorf("%s: got error %v, want a corrupt object", what, err)
		return
	}
	for _, key := range keys {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %q does not name %s", what, err, key)
		}
	}
}

// A watcher learns the state before a change; from where etcd has dropped the history
// there is no watch.
// TestWatchBare wants the events of a watch that does not ask for what was before.
func TestWatchBare(t *testing.T) {
	t.Parallel()
	store, _ := etcd3test.NewStore(t)
	w, err := store.Watch(t.Context(), storagetest.Prefix, storage.ListOptions{Recursive: true, ResourceVersion: "1", Bare: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	o := storagetest.NewObject("a")
	created, err := store.Create(t.Context(), o.Key(), o.JSON(), 0)
	if err != nil {
		t.Fatal(err)
	}
	updated, err := store.GuaranteedUpdate(t.Context(), o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		return o.With("k", "v").JSON(), 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := store.Delete(t.Context(), o.Key(), storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []storage.Event{
		{Type: storage.Added, Row: created},
		{Type: storage.Modified, Row: updated},
		{Type: storage.Deleted, Row: storage.Row{Key: o.Key(), ResourceVersion: deleted.ResourceVersion}},
	}
	var got []storage.Event
	for len(got) < len(want) {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, events...)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// TestDeleteUnreadable wants an object that cannot be read to be deleted as such, and no other.
func TestDeleteUnreadable(t *testing.T) {
	t.Parallel()
	store, client := etcd3test.NewStore(t)
	good, bad := storagetest.NewObject("good"), storagetest.NewObject("bad")
	if _, err := store.Create(t.Context(), good.Key(), good.JSON(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), bad.Key(), "k8s:enc:unknown"); err != nil {
		t.Fatal(err)
	}
	unreadable := storage.DeleteOptions{Unreadable: true}
	uid := types.UID(bad.UID)
	tests := []struct {
		name, key string
		opts      storage.DeleteOptions
		want      storage.ErrorCode
	}{
		{name: "readable", key: good.Key(), opts: unreadable, want: storage.ErrCodeInvalidObj},
		{name: "missing", key: storagetest.NewObject("none").Key(), opts: unreadable, want: storage.ErrCodeKeyNotFound},
		{name: "as if it could be read", key: bad.Key(), want: storage.ErrCodeCorruptObj},
		{name: "a uid that nobody can see", key: bad.Key(), want: storage.ErrCodeInvalidObj,
			opts: storage.DeleteOptions{Unreadable: true, Preconditions: &storage.Preconditions{UID: &uid}}},
		{name: "unreadable", key: bad.Key(), opts: unreadable},
		{name: "again", key: bad.Key(), opts: unreadable, want: storage.ErrCodeKeyNotFound},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			row, err := store.Delete(t.Context(), tc.key, tc.opts)
			if code := storage.CodeOf(err); code != tc.want || code == 0 && err != nil {
				t.Fatalf("error %v, want code %d", err, tc.want)
			}
			if err == nil && (!row.Value.IsZero() || row.ResourceVersion != 4) {
				t.Errorf("row %v", row)
			}
		})
	}
}

func TestWatchPrevious(t *testing.T) {
	client := etcd3test.New(t)
	ctx := t.Context()
	store := newStore(t, etcd3.Config{Client: client})
	o := storagetest.NewObject("a")
	first := storagetest.Create(ctx, t, store, o)
	second := storagetest.Update(ctx, t, store, o.With("k", "v"))
	opts := everything()
	opts.ResourceVersion = fmt.Sprint(first.ResourceVersion)
	w, err := store.Watch(ctx, storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	events, err := w.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if prev := events[0].Prev; prev.Value.String() != first.Value.String() || prev.ResourceVersion != first.ResourceVersion {
		t.Errorf("got previous %+v, want %+v", prev, first)
	}

	etcd3test.Compaction(client)(ctx, t, second.ResourceVersion)
	opts.ResourceVersion = fmt.Sprint(second.ResourceVersion - 1)
	again, err := store.Watch(ctx, storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	events, err = again.Next(ctx)
	if storage.CodeOf(err) != storage.ErrCodeExpired {
		t.Errorf("got %v, %v, want expired", events, err)
	}
}

func TestMetrics(t *testing.T) {
	client := etcd3test.New(t)
	registry := prometheus.NewRegistry()
	metrics, err := etcd3.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd3.NewMetrics(registry); err != nil {
		t.Errorf("a second set: %v", err)
	}
	store := newStore(t, etcd3.Config{Client: client, Metrics: metrics, Resource: "configmaps"})
	ctx := t.Context()
	o := storagetest.NewObject("a")
	storagetest.Create(ctx, t, store, o)
	if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := store.Get(gone, o.Key(), storage.GetOptions{}); !errors.Is(err, context.Canceled) || storage.CodeOf(err) != 0 {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if len(labels) > 0 && labels["resource"] != "configmaps" {
				t.Errorf("%s: labels %v", family.GetName(), labels)
			}
			n := metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			if n > 0 {
				got[family.GetName()+" "+labels["operation"]] = n
			}
		}
	}
	want := map[string]float64{
		"etcd_requests_total create":           1,
		"etcd_requests_total get":              2,
		"etcd_request_errors_total get":        1,
		"etcd_request_duration_seconds create": 1,
		"etcd_request_duration_seconds get":    2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// An etcd that does not answer, or is not there, is an error within the deadline.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Addr().String() // accepts, by the kernel's backlog, and says nothing
	defer l.Close()
	const absent = "127.0.0.1:1" // a port that nobody is given
	for name, endpoint := range map[string]string{"silent": silent, "absent": absent} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t, etcd3.Config{
				Client: dial(t, etcd3.DialConfig{Endpoints: []string{endpoint}}), RequestTimeout: 200 * time.Millisecond,
			})
			_, err := store.Get(t.Context(), storagetest.NewObject("a").Key(), storage.GetOptions{})
			if code := storage.CodeOf(err); code != storage.ErrCodeTimeout && code != storage.ErrCodeUnreachable {
				t.Errorf("get: got error %v, want a timeout or unreachable", err)
			}
			// A caller who would wait longer is told as soon.
			patient, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			_, err = store.Get(patient, storagetest.NewObject("a").Key(), storage.GetOptions{})
			if code := storage.CodeOf(err); code != storage.ErrCodeTimeout && code != storage.ErrCodeUnreachable {
				t.Errorf("get with a long deadline: got error %v, want a timeout or unreachable", err)
			}
			if err := store.ReadinessCheck(); err == nil {
				t.Error("ready without an etcd")
			}
		})
	}
}

// A watch that is given up or ended leaves nothing behind that would keep its Store's
// stream: the next watch works.
func TestWatchAfterStop(t *testing.T) {
	store, _ := etcd3test.NewStore(t)
	ctx := t.Context()
	start := storagetest.Create(ctx, t, store, storagetest.NewObject("start"))
	opts := everything()
	opts.ResourceVersion = fmt.Sprint(start.ResourceVersion)
	for range 20 {
		w, err := store.Watch(ctx, storagetest.Prefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		w.Stop()
		if _, err := w.Next(ctx); !errors.Is(err, io.EOF) {
			t.Fatalf("got error %v, want %v", err, io.EOF)
		}
	}
	w, err := store.Watch(ctx, storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	storagetest.Create(ctx, t, store, storagetest.NewObject("a"))
	if events, err := w.Next(ctx); err != nil || events[0].Type != storage.Added {
		t.Errorf("got %v, %v", events, err)
	}
}

func BenchmarkStore(b *testing.B) {
	store, _ := etcd3test.NewStore(b)
	ctx := b.Context()
	o := storagetest.NewObject("a").With("k", strings.Repeat("x", 2000))
	row := storagetest.Create(ctx, b, store, o)
	b.Run("GetCurrentResourceVersion", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.GetCurrentResourceVersion(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Get", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("GuaranteedUpdate", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			var err error
			row, err = store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: row}, func(storage.Row) ([]byte, uint64, error) {
				return o.With("n", fmt.Sprint(n)).JSON(), 0, nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// boundKV notes until when the last request might take.
type boundKV struct {
	clientv3.KV
	until time.Time
}

func (b *boundKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	b.until, _ = ctx.Deadline()
	return b.KV.Get(ctx, key, opts...)
}

func (b *boundKV) Txn(ctx context.Context) clientv3.Txn {
	b.until, _ = ctx.Deadline()
	return b.KV.Txn(ctx)
}

// TestSlowUpdate: the bound is on what etcd does, not on what the caller computes, such as what admission says.
func TestSlowUpdate(t *testing.T) {
	const timeout = 9 * time.Second // less than the bound of any request about one row
	client := etcd3test.New(t)
	kv := &boundKV{KV: client.KV}
	client.KV = kv
	store := newStore(t, etcd3.Config{Client: client, RequestTimeout: timeout})
	row, err := store.Create(t.Context(), storagetest.NewObject("a").Key(), storagetest.NewObject("a").JSON(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var computed time.Time
	slow := func() {
		time.Sleep(time.Millisecond)
		computed = time.Now()
	}
	want := func(what string) {
		t.Helper()
		if kv.until.Before(computed.Add(timeout)) {
			t.Errorf("%s: %s are left for the write, want %s", what, kv.until.Sub(computed), timeout)
		}
	}
	updated, err := store.GuaranteedUpdate(t.Context(), row.Key, storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		slow()
		return storagetest.NewObject("a").With("slow", "yes").JSON(), 0, nil
	})
	if err != nil || updated.ResourceVersion <= row.ResourceVersion {
		t.Errorf("update: %v, %v", updated.ResourceVersion, err)
	}
	want("update")
	validate := func(context.Context, storage.Row) error { slow(); return nil }
	if _, err := store.Delete(t.Context(), row.Key, storage.DeleteOptions{Validate: validate}); err != nil {
		t.Errorf("delete: %v", err)
	}
	want("delete")
}
