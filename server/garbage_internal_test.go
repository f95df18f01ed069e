package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
)

func TestLineageCodec(t *testing.T) {
	tests := []struct{ name, stored, want string }{
		{"canonical", `{"apiVersion":"v1","data":{"uid":"x"},"kind":"ConfigMap","metadata":{"annotations":{"a":"b"},"name":"n","namespace":"ns","uid":"u"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"ns","uid":"u"}}`},
		{"all", `{"apiVersion":"v1","kind":"X","metadata":{"deletionTimestamp":"d","finalizers":["f"],"labels":{},"name":"n","ownerReferences":[{"uid":"o"}],"resourceVersion":"1","uid":"u"},"status":{}}`,
			`{"apiVersion":"v1","kind":"X","metadata":{"deletionTimestamp":"d","finalizers":["f"],"name":"n","ownerReferences":[{"uid":"o"}],"uid":"u"}}`},
		{"upstream's", `{"kind":"X", "apiVersion":"v1","metadata":{"uid":"u","name":"n"}}` + "\n", `{"apiVersion":"v1","kind":"X","metadata":{"name":"n","uid":"u"}}`},
		{"no kind", `{"metadata":{"name":"n"}}`, `{"metadata":{"name":"n"}}`},
		{"no object", `[1]`, `{"metadata":{}}`},
		{"metadata is no object", `{"kind":"X","metadata":7}`, `{"kind":"X","metadata":{}}`},
		{"protobuf", "k8s\x00\x0a\x0a\x0a\x02v1\x12\x04Node\x12\x0a\x0a\x06\x0a\x01n\x2a\x01u\x12\x00", `{"apiVersion":"v1","foreign":true,"kind":"Node","metadata":{"name":"n","uid":"u"}}`},
		{"protobuf in a namespace", "k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x0c\x0a\x0a\x0a\x01n\x1a\x02ns\x2a\x01u", `{"apiVersion":"v1","foreign":true,"kind":"Pod","metadata":{"name":"n","namespace":"ns","uid":"u"}}`},
		{"protobuf of nobody", "k8s\x00", `{}`},
		{"no protobuf", "k8s\x00binary", `{}`},
		{"nothing", "", `{}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := newLineageCodec().Decode([]byte(tc.stored), 7)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	if _, err := (lineageCodec{}).Encode(nil); err == nil {
		t.Error("rows can be written")
	}
}

// countingKV counts reads.
type countingKV struct {
	clientv3.KV
	gets atomic.Int32
}

func (c *countingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.gets.Add(1)
	return c.KV.Get(ctx, key, opts...)
}

// uids tells of each call with what the rows have as their uid.
type uids chan string

func (u uids) Begin()                         { u <- "begin" }
func (u uids) End()                           { u <- "end" }
func (u uids) Put(obj *document.Document)     { u <- "put " + string(rest.MetaOf(obj).UID()) }
func (u uids) Foreign(obj *document.Document) { u <- "foreign " + string(rest.MetaOf(obj).UID()) }
func (u uids) Remove(resource schema.GroupResource, obj *document.Document) {
	u <- "remove " + resource.String() + " " + string(rest.MetaOf(obj).UID())
}
func (u uids) RemoveForeign(obj *document.Document) {
	u <- "remove foreign " + string(rest.MetaOf(obj).UID())
}

// The collector is told of deletions who was deleted. Of an etcd in this process nothing else is read.
func TestLineageRowsFollow(t *testing.T) {
	for _, near := range []bool{true, false} {
		t.Run(fmt.Sprintf("near %t", near), func(t *testing.T) {
			etcd, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = etcd.Close() })
			client := etcd.Client()
			if !near {
				if client, err = etcd3.Dial(etcd3.DialConfig{Endpoints: []string{"http://" + etcd.Addr().String()}}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = client.Close() })
			}
			counting := &countingKV{KV: client.KV}
			client.KV = counting
			store, err := etcd3.New(etcd3.Config{Client: client, Codec: newLineageCodec(), Resource: "*"})
			if err != nil {
				t.Fatal(err)
			}
			resource, err := resourcesByKey("/registry/")
			if err != nil {
				t.Fatal(err)
			}
			rows := &lineageRows{prefix: "/registry/", resource: resource, logger: slog.New(slog.DiscardHandler),
				clusters: []lineageCluster{{name: "etcd", rows: store, near: near, has: func(string) bool { return true }}}}
			seen := make(uids, 100)
			want := func(calls ...string) {
				t.Helper()
				for _, call := range calls {
					if got := <-seen; got != call {
						t.Fatalf("got %s, want %s", got, call)
					}
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- rows.Follow(ctx, seen) }()
			put := func(key string) {
				t.Helper()
				if _, err := client.Put(t.Context(), "/registry/configmaps/default/"+key, `{"metadata":{"uid":"`+key+`"}}`); err != nil {
					t.Fatal(err)
				}
			}
			want("begin", "end")
			put("a") // the watch, which may begin behind this, is told
			want("put a")
			before := counting.gets.Load()
			for range 10 {
				put("a")
				want("put a")
			}
			put("b")
			want("put b")
			if n := counting.gets.Load() - before; n != 0 {
				t.Errorf("%d reads for updates", n)
			}
			if _, err := client.Delete(t.Context(), "/registry/configmaps/default/a"); err != nil {
				t.Fatal(err)
			}
			want("remove configmaps a")
			if _, err := client.Delete(t.Context(), "/registry/configmaps/", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			want("remove configmaps b")
			cancel()
			<-done
		})
	}
}

// listed is a cluster of many rows, or one that does not answer.
type listed struct {
	storage.Interface
	err  error
	rows int64
}

func (l *listed) GetList(_ context.Context, _ string, opts storage.ListOptions) (storage.List, error) {
	l.rows += opts.Predicate.Limit
	return storage.List{ResourceVersion: 7}, l.err
}

// Where one of several clusters is away the others are not read whole.
func TestLineageRowsAsksFirst(t *testing.T) {
	away := errors.New("away")
	here, gone := &listed{}, &listed{err: away}
	rows := &lineageRows{prefix: "/registry/", logger: slog.New(slog.DiscardHandler), clusters: []lineageCluster{{name: "here", rows: here}, {name: "gone", rows: gone}}}
	if err := rows.Follow(t.Context(), uids(make(chan string, 10))); !errors.Is(err, away) || here.rows > 1 {
		t.Errorf("%v, %d rows are read", err, here.rows)
	}
}

// BenchmarkLineageCodec is what each write of a 2 KiB object costs the garbage collector, twice for an update in an etcd that sends what was before.
func BenchmarkLineageCodec(b *testing.B) {
	stored := []byte(fmt.Sprintf(`{"apiVersion":"v1","data":{"a":%q},"kind":"ConfigMap","metadata":{"name":"n","namespace":"ns","uid":"u"}}`, strings.Repeat("x", 2000)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newLineageCodec().Decode(stored, 7); err != nil {
			b.Fatal(err)
		}
	}
}
