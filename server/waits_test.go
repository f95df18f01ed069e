package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

// A list or a get at a revision that is to come waits for it three seconds.
func TestReadsWaitForARevision(t *testing.T) {
	all := newTester(t, servertest.Options{})
	w, err := all.client.Resource(configMaps).Namespace("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	first := all.configMap("default", "first")
	<-w.ResultChan() // the cache follows now: before, lists are etcd's, which has no revision to come
	rv, err := strconv.ParseUint(first.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"list": configMapsPath + "?resourceVersion=", "get": configMapsPath + "/first?resourceVersion="} {
		t.Run(name, func(t *testing.T) {
			tt := all.in(t)
			begun := time.Now()
			code, out := tt.request(http.MethodGet, path+strconv.FormatUint(rv+1000, 10), "")
			if code != http.StatusGatewayTimeout || member(out, "details.retryAfterSeconds") != "1" || !strings.Contains(member(out, "details.causes"), "ResourceVersionTooLarge") {
				t.Errorf("%d %v", code, out)
			}
			if waited := time.Since(begun); waited < 3*time.Second || waited > 20*time.Second {
				t.Errorf("waited %v", waited)
			}
		})
	}
	t.Run("list in time", func(t *testing.T) {
		tt := all.in(t)
		in := tt.client.Resource(configMaps).Namespace("default")
		next := rv
		for attempt := range 4 {
			wrote := make(chan time.Time, 1)
			go func() {
				defer close(wrote)
				time.Sleep(200 * time.Millisecond) // so that the list is likely to be there first
				if _, err := in.Create(t.Context(), build(configMaps, "default", "ConfigMap", fmt.Sprint("second", attempt)), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				wrote <- time.Now()
			}()
			began := time.Now()
			list, err := in.List(t.Context(), metav1.ListOptions{ResourceVersion: strconv.FormatUint(next+1, 10)})
			if written := <-wrote; err != nil && written.Sub(began) > 2*time.Second {
				next++
				continue // on a busy machine the write may come too late
			}
			if err != nil {
				t.Fatal(err)
			}
			if next, err = strconv.ParseUint(list.GetResourceVersion(), 10, 64); err != nil || next <= rv {
				t.Errorf("list at %d, want more than %d: %v", next, rv, err)
			}
			return
		}
		t.Error("no write is in time")
	})
}

// The resourceVersions of objects are numbers, those of later writes higher, and that of a list at least that of every item,
// whichever state of any age the list is of.
func TestRevisionsOfLists(t *testing.T) {
	all := newTester(t, servertest.Options{})
	last := uint64(0)
	number := func(rv string) uint64 {
		t.Helper()
		n, err := strconv.ParseUint(rv, 10, 64)
		if err != nil || strconv.FormatUint(n, 10) != rv {
			t.Fatalf("resourceVersion %q is no number", rv)
		}
		return n
	}
	for i := range 20 {
		n := number(all.configMap("default", fmt.Sprint("c", i)).GetResourceVersion())
		if n <= last {
			t.Errorf("%d after %d", n, last)
		}
		last = n
		for _, opts := range []metav1.ListOptions{{}, {ResourceVersion: "0"}, {Limit: 3}, {ResourceVersion: fmt.Sprint(n)}, {ResourceVersion: fmt.Sprint(n), ResourceVersionMatch: metav1.ResourceVersionMatchExact}} {
			list, err := all.client.Resource(configMaps).List(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			at := number(list.GetResourceVersion())
			if opts.ResourceVersion != "0" && at < n || opts.ResourceVersionMatch != "" && at != n {
				t.Errorf("%+v: list at %d after %d", opts, at, n)
			}
			for _, item := range list.Items {
				if number(item.GetResourceVersion()) > at {
					t.Errorf("%+v: %s at %s in a list at %d", opts, item.GetName(), item.GetResourceVersion(), at)
				}
			}
		}
	}
}

// Patches of one object by many clients are all done: none of them names a resourceVersion, so none is a conflict.
func TestPatchesOfOneObject(t *testing.T) {
	const clients, patches = 12, 10
	all := newTester(t, servertest.Options{})
	all.configMap("default", "one")
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for i := range patches {
				kind, patch := types.MergePatchType, fmt.Sprintf(`{"data":{"k%d-%d":"v"}}`, client, i)
				switch i % 3 {
				case 1:
					kind = types.StrategicMergePatchType
				case 2:
					kind, patch = types.JSONPatchType, fmt.Sprintf(`[{"op":"add","path":"/metadata/labels","value":{"k":"%d-%d"}},{"op":"test","path":"/metadata/name","value":"one"}]`, client, i)
				}
				if _, err := all.client.Resource(configMaps).Namespace("default").Patch(t.Context(), "one", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Errorf("%s %s: %v", kind, patch, err)
				}
			}
		})
	}
	group.Wait()
	obj, err := all.client.Resource(configMaps).Namespace("default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := obj.Object["data"].(map[string]any); len(data) != clients*(patches-patches/3) {
		t.Errorf("%d of %d patches are left", len(data), clients*(patches-patches/3))
	}
}

// A watcher that does not read until its events are gone from the cache and from etcd loses them, but not its bearings: its stream
// is whole events in their order, and what it saw last, or an error that says so, lets it list and go on.
func TestSlowWatcher(t *testing.T) {
	etcd, address := startEtcd(t)
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address},
		Storage: server.StorageConfig{WatchCacheSizes: []string{"configmaps#16"}}}})
	slow := all.configMap("default", "slow")
	ctx, cancel := context.WithTimeout(t.Context(), 5*awaitTimeout) // for many large writes
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, all.env.URL()+configMapsPath+"?watch=true&resourceVersion="+slow.GetResourceVersion(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := all.env.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	const writes = 150
	large := strings.Repeat("x", 200_000) // in all more than what lies between the two
	last := ""
	for i := range writes {
		obj, err := all.of(slow).Patch(ctx, "slow", types.MergePatchType, []byte(fmt.Sprintf(`{"data":{"n":"%d","large":%q}}`, i, large)), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = obj.GetResourceVersion()
	}
	// The cache too has them behind it: a watcher of one that lags behind etcd might be given all.
	all.eventually("the cache has the last write", func() error {
		_, err := all.client.Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=slow", ResourceVersion: last})
		return err
	})
	compact(t, etcd, last)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	seen, events, ended := uint64(0), 0, ""
	for ended == "" && lines.Scan() {
		var e struct {
			Type   string
			Object struct {
				Code     int
				Metadata metav1.ObjectMeta
				Data     map[string]string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("no whole event: %v", err)
		}
		if e.Type == "ERROR" {
			if ended = fmt.Sprint("ERROR ", e.Object.Code); e.Object.Code != http.StatusGone {
				t.Errorf("ended with %d", e.Object.Code)
			}
			continue
		}
		rv, err := strconv.ParseUint(e.Object.Metadata.ResourceVersion, 10, 64)
		if err != nil || rv <= seen || e.Type != "MODIFIED" || e.Object.Data["n"] != strconv.Itoa(events) {
			t.Fatalf("event %d: %s %s after %d, n %s", events, e.Type, e.Object.Metadata.ResourceVersion, seen, e.Object.Data["n"])
		}
		seen = rv
		if events++; events == writes {
			t.Fatal("nothing was lost: the test shows nothing")
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
	t.Logf("%d events", events)
	if ended != "" {
		t.Errorf("the stream ended with %q, want a clean end", ended)
	}
	if code, out := all.request(http.MethodGet, fmt.Sprintf("%s?watch=true&timeoutSeconds=60&resourceVersion=%d", configMapsPath, seen), ""); code != http.StatusOK || out["type"] != "ERROR" || member(out, "object.code") != "410" {
		t.Errorf("a watch from what was seen last: %d %.200v", code, out)
	}
	list, err := all.client.Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=slow", ResourceVersion: strconv.FormatUint(seen, 10)})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetResourceVersion() != last {
		t.Errorf("list from what was seen last: %v", err)
	}
}

func compact(t *testing.T, etcd *etcd3.Embedded, rv string) {
	t.Helper()
	at, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Client().Compact(t.Context(), at); err != nil {
		t.Fatal(err)
	}
}

// History is dropped every five minutes unless another interval is given, as upstream drops it.
func TestHistoryIsKeptForFiveMinutes(t *testing.T) {
	config := server.Config{DataDir: t.TempDir()}
	config.Complete()
	if got := config.Storage.CompactionInterval; got != 5*time.Minute {
		t.Errorf("dropped every %v", got)
	}
}
