package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
	enc "weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

const (
	secretsPath = "/api/v1/namespaces/default/secrets"
	password    = "correct horse battery staple"
)

// encrypted is a server whose etcd the test reads and writes beside it.
type encrypted struct {
	*tester
	etcd   *clientv3.Client
	file   string
	config server.Config
}

func newEncrypted(t *testing.T, content string, intervals encryption.Intervals) *encrypted {
	t.Helper()
	e, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	enc.Write(t, file, content)
	config := server.Config{EtcdServers: []string{e.Addr().String()}, EncryptionProviderConfig: file}
	config.SetEncryptionIntervals(intervals)
	return &encrypted{tester: newTester(t, servertest.Options{Config: config}), etcd: e.Client(), file: file, config: config}
}

func quickIntervals() encryption.Intervals {
	return encryption.Intervals{Poll: 50 * time.Millisecond, Probe: 20 * time.Millisecond, ProbeFailing: 10 * time.Millisecond,
		Fresh: time.Millisecond, FreshFailure: time.Millisecond}
}

// row is what etcd holds.
func (e *encrypted) row(key string) string {
	e.Helper()
	resp, err := e.etcd.Get(e.Context(), "/registry/"+key)
	if err != nil || len(resp.Kvs) != 1 {
		e.Fatalf("row %s: %v, %v", key, resp, err)
	}
	return string(resp.Kvs[0].Value)
}

func (e *encrypted) put(key, row string) {
	e.Helper()
	if _, err := e.etcd.Put(e.Context(), "/registry/"+key, row); err != nil {
		e.Fatal(err)
	}
}

func (e *encrypted) remove(key string) {
	e.Helper()
	if _, err := e.etcd.Delete(e.Context(), "/registry/"+key); err != nil {
		e.Fatal(err)
	}
}

func secretBody(name string, n int) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"data":{"password":%q,"n":%q}}`, name,
		base64.StdEncoding.EncodeToString([]byte(password)), base64.StdEncoding.EncodeToString(fmt.Append(nil, n)))
}

func (e *encrypted) wantCode(method, path, body string, want int) map[string]any {
	e.Helper()
	code, out := e.request(method, path, body)
	if code != want {
		e.Fatalf("%s %s: got %d, want %d: %v", method, path, code, want, out)
	}
	return out
}

// text gets what is no JSON.
func (e *encrypted) text(path string) (int, string) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.Context(), http.MethodGet, e.env.URL()+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	resp, err := e.env.Client().Do(req)
	if err != nil {
		e.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		e.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (e *encrypted) eventually(what string, holds func() bool) {
	e.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			e.Fatalf("%s did not happen", what)
		}
	}
}

// rewrite sends an object back as it is, and wants its row to begin with prefix then.
func (e *encrypted) rewrite(name, prefix string) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.Context(), http.MethodPatch, e.env.URL()+secretsPath+"/"+name, strings.NewReader("{}"))
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := e.env.Client().Do(req)
	if err != nil {
		e.Fatal(err)
	}
	resp.Body.Close()
	if row := e.row("secrets/default/" + name); resp.StatusCode != http.StatusOK || !strings.HasPrefix(row, prefix) {
		e.Errorf("an update that changes nothing: %d, row %.50q, want %s", resp.StatusCode, row, prefix)
	}
}

// Each provider stores no plain text, reads it back, after a restart too, and binds what it can to its key.
func TestEncryptionProviders(t *testing.T) {
	plugin := enc.NewPlugin(t)
	tests := []struct{ name, provider, prefix string }{
		{"aescbc", enc.Keys("aescbc", "key1"), "k8s:enc:aescbc:v1:key1:"},
		{"aesgcm", enc.Keys("aesgcm", "key1"), "k8s:enc:aesgcm:v1:key1:"},
		{"secretbox", enc.Keys("secretbox", "key1"), "k8s:enc:secretbox:v1:key1:"},
		{"kms", plugin.Patient("server"), "k8s:enc:kms:v2:server:"},
		{"identity", enc.Identity, "{"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := newEncrypted(t, enc.Config(enc.Entry("secrets,widgets.example.com", tc.provider, enc.Identity)), encryption.Intervals{})
			e.define("widget")
			e.put("secrets/default/old", `{"apiVersion":"v1","data":{"password":"`+base64.StdEncoding.EncodeToString([]byte(password))+
				`"},"kind":"Secret","metadata":{"creationTimestamp":"2024-01-01T00:00:00Z","name":"old","namespace":"default",`+
				`"uid":"11111111-2222-3333-4444-555555555555"},"type":"Opaque"}`) // from before
			e.wantCode(http.MethodPost, secretsPath, secretBody("a", 1), http.StatusCreated)
			e.create(widgets, "default", "Widget", "w")
			e.wantCode(http.MethodPost, configMapsPath, configMapBody("plain", ""), http.StatusCreated)
			for key, prefix := range map[string]string{
				"secrets/default/a": tc.prefix, "example.com/widgets/default/w": tc.prefix, "configmaps/default/plain": "{",
			} {
				row := e.row(key)
				if !strings.HasPrefix(row, prefix) || (prefix != "{" && strings.Contains(row, `"metadata"`)) {
					t.Errorf("%s is stored as %.60q", key, row)
				}
			}
			if err := e.env.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "old"} {
				out := e.wantCode(http.MethodGet, secretsPath+"/"+name, "", http.StatusOK)
				if got, _ := base64.StdEncoding.DecodeString(member(out, "data.password")); string(got) != password {
					t.Errorf("%s: got %v", name, out)
				}
			}
			e.rewrite("old", tc.prefix)
			list := e.wantCode(http.MethodGet, secretsPath+"?resourceVersion=0", "", http.StatusOK)
			if items, _ := list["items"].([]any); len(items) != 2 {
				t.Errorf("got %d items, want 2", len(items))
			}
			e.wantCode(http.MethodDelete, secretsPath+"/a", "", http.StatusOK)
			e.wantCode(http.MethodGet, secretsPath+"/a", "", http.StatusNotFound)
		})
	}
}

// The first key is changed while objects are written and read: each is readable at all times, and the next update
// writes it with the new key.
func TestEncryptionRotationUnderLoad(t *testing.T) {
	plugin := enc.NewPlugin(t)
	kms := plugin.Patient("load")
	e := newEncrypted(t, enc.Config(enc.Entry("secrets", enc.Keys("secretbox", "a"), enc.Identity)), quickIntervals())
	const objects = 8
	stop := e.load(objects, e.tester)
	for _, step := range []struct{ prefix, content string }{
		{"k8s:enc:secretbox:v1:b:", enc.Config(enc.Entry("secrets", enc.Keys("secretbox", "b", "a"), enc.Identity))},
		{"k8s:enc:aesgcm:v1:c:", enc.Config(enc.Entry("*.", enc.Keys("aesgcm", "c"), enc.Keys("secretbox", "b", "a")))},
		{"k8s:enc:kms:v2:load:", enc.Config(enc.Entry("*.*", kms, enc.Keys("aesgcm", "c"), enc.Keys("secretbox", "b", "a"), enc.Identity))},
		{"k8s:enc:aescbc:v1:d:", enc.Config(enc.Entry("*.*", enc.Keys("aescbc", "d"), kms, enc.Keys("aesgcm", "c"), enc.Keys("secretbox", "b", "a"), enc.Identity))},
	} {
		enc.Write(t, e.file, step.content)
		e.eventually("writing with "+step.prefix, func() bool { return strings.HasPrefix(e.row("secrets/default/s0"), step.prefix) || t.Failed() })
		if row := e.row("secrets/default/s1"); !strings.HasPrefix(row, "k8s:enc:secretbox:v1:a:") {
			t.Errorf("an object that nobody updates is stored as %.40q", row)
		}
	}
	stop()
	for i := range objects {
		e.rewrite(fmt.Sprint("s", i), "k8s:enc:aescbc:v1:d:")
	}
	if code, body := e.text("/metrics"); code != http.StatusOK || !strings.Contains(body, `automatic_reloads_total{status="success"} 4`) ||
		!strings.Contains(body, "apiserver_envelope_encryption_kms_operations_latency_seconds") || strings.Contains(body, enc.Secret("a")) {
		t.Errorf("metrics: %d, and what is wanted of them is missing", code)
	}
}

// load makes objects, and writes and reads them all the time: those of even numbers are written by the first server and the
// others keep the rows that they have; all servers read. What fails, fails the test.
func (e *encrypted) load(objects int, servers ...*tester) (stop func()) {
	e.Helper()
	for i := range objects {
		e.wantCode(http.MethodPost, secretsPath, secretBody(fmt.Sprint("s", i), 0), http.StatusCreated)
	}
	stopped := make(chan struct{})
	var workers sync.WaitGroup
	for i := range objects {
		name := fmt.Sprint("s", i)
		workers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stopped:
					return
				default:
				}
				if i%2 == 0 {
					if code, out := e.request(http.MethodPut, secretsPath+"/"+name, secretBody(name, n)); code != http.StatusOK {
						e.Errorf("put %s: %d %v", name, code, out)
						return
					}
				}
				at := servers[n%len(servers)]
				for _, path := range []string{secretsPath + "/" + name, secretsPath + "?limit=3", secretsPath + "?resourceVersionMatch=Exact&resourceVersion=" + e.exact()} {
					if code, out := at.request(http.MethodGet, path, ""); code != http.StatusOK {
						e.Errorf("get %s: %d %v", path, code, out)
						return
					}
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		close(stopped)
		workers.Wait()
	})
	e.Cleanup(stop) // also where the test ends early
	return stop
}

// A KMS plugin changes its key while objects are written, and read by two servers, each of which has seeds that the other
// must ask the plugin for. When all have been written again no earlier key is needed.
func TestEncryptionKMSRotationUnderLoad(t *testing.T) {
	plugin := enc.NewPlugin(t)
	plugin.Rotate("key-one")
	e := newEncrypted(t, enc.Config(enc.Entry("secrets", plugin.Patient("load"))), quickIntervals())
	other := newTester(t, servertest.Options{Config: e.config})
	const objects = 6
	stop := e.load(objects, e.tester, other)
	keys := []string{"key-one", "key-two", "key-three", "key-four"}
	for _, key := range keys[1:] {
		plugin.Rotate(key)
		e.eventually("writing with "+key, func() bool { return strings.Contains(e.row("secrets/default/s0"), key) || t.Failed() })
		if row := e.row("secrets/default/s1"); !strings.Contains(row, keys[0]) {
			t.Errorf("an object that nobody updates is stored as %.80q", row)
		}
	}
	stop()
	last := keys[len(keys)-1]
	for i := range objects {
		name := fmt.Sprint("s", i)
		if e.rewrite(name, "k8s:enc:kms:v2:load:"); !strings.Contains(e.row("secrets/default/"+name), last) {
			t.Errorf("%s is stored as %.80q, want %s", name, e.row("secrets/default/"+name), last)
		}
	}
	for _, key := range append(keys[:len(keys)-1], "1") {
		plugin.Forget(key, codes.NotFound)
	}
	if err := e.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		for _, at := range []*tester{e.tester, other} {
			if code, out := at.request(http.MethodGet, fmt.Sprint(secretsPath, "/s", i), ""); code != http.StatusOK {
				t.Errorf("s%d without the earlier keys: %d %v", i, code, out)
			}
		}
	}
	if out := e.wantCode(http.MethodGet, secretsPath, "", http.StatusOK); len(out["items"].([]any)) != objects {
		t.Errorf("got %d objects, want %d", len(out["items"].([]any)), objects)
	}
}

// exact is a revision that was in force a moment ago.
func (e *encrypted) exact() string {
	_, out := e.request(http.MethodGet, secretsPath+"?limit=1", "")
	return member(out, "metadata.resourceVersion")
}

// Rows that were changed or moved are reported by their key, and nothing else is harmed.
func TestEncryptionDamage(t *testing.T) {
	e := newEncrypted(t, enc.Config(enc.Entry("secrets,widgets.example.com", enc.Keys("aesgcm", "a")), enc.Entry("configmaps", enc.Keys("aescbc", "b"))), encryption.Intervals{})
	for _, name := range []string{"a", "b"} {
		e.wantCode(http.MethodPost, secretsPath, secretBody(name, 0), http.StatusCreated)
	}
	good := e.row("secrets/default/a")
	wantUnreadable := func(what, path string, keys ...string) {
		t.Helper()
		out := e.wantCode(http.MethodGet, path, "", http.StatusInternalServerError)
		if member(out, "reason") != string(metav1.StatusReasonStoreReadError) {
			t.Errorf("%s: got %v", what, out)
		}
		for _, key := range keys {
			if !strings.Contains(member(out, "message"), "/registry/"+key) {
				t.Errorf("%s: message does not name %s: %v", what, key, out["message"])
			}
		}
	}
	prefix := len("k8s:enc:aesgcm:v1:a:")
	for _, at := range []int{0, 9, prefix - 2, prefix, prefix + 12, len(good) - 1} {
		row := []byte(good)
		row[at] ^= 1
		e.put("secrets/default/a", string(row))
		e.eventually("notice", func() bool {
			code, _ := e.request(http.MethodGet, secretsPath+"/a", "")
			return code == http.StatusInternalServerError
		})
		wantUnreadable(fmt.Sprint("byte ", at), secretsPath+"/a", "secrets/default/a")
	}
	for _, row := range []string{"", "k8s:enc:aesgcm:v1:a:", good[:prefix+11], "k8s:enc:", "k8s:enc:rot13:v1:a:x"} {
		e.put("secrets/default/a", row)
		wantUnreadable(fmt.Sprintf("%.30q", row), secretsPath+"/a", "secrets/default/a")
	}
	e.put("secrets/default/b", good)
	wantUnreadable("moved", secretsPath+"/b", "secrets/default/b")
	wantUnreadable("list", secretsPath, "secrets/default/a", "secrets/default/b")
	e.put("configmaps/default/cut", "k8s:enc:aescbc:v1:b:"+strings.Repeat("x", 16)) // upstream's transformer panics
	wantUnreadable("cut", configMapsPath+"/cut", "configmaps/default/cut")

	// Other resources are served, and the garbage collector does its work.
	e.define("widget")
	owner := e.create(widgets, "default", "Widget", "owner")
	dependent := e.create(widgets, "default", "Widget", "dependent", ownedBy(owner, false))
	e.delete(owner, metav1.DeletePropagationBackground)
	e.awaitGone(owner, dependent)

	// An owner that cannot be read is not gone, also for a collector that never saw it well.
	owner = e.create(widgets, "default", "Widget", "owner")
	e.create(widgets, "default", "Widget", "dependent", ownedBy(owner, false))
	const ownerKey = "example.com/widgets/default/owner"
	well := e.row(ownerKey)
	e.put(ownerKey, well[:len(well)-1])
	e.remove("configmaps/default/cut")
	if err := e.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.settle("default")
	e.wantCode(http.MethodGet, "/apis/example.com/v1/namespaces/default/widgets/dependent", "", http.StatusOK)
	e.put(ownerKey, well)
	e.eventually("repair", func() bool {
		code, _ := e.request(http.MethodGet, "/apis/example.com/v1/namespaces/default/widgets/owner", "")
		return code == http.StatusOK
	})
	e.wantCode(http.MethodGet, "/apis/example.com/v1/namespaces/default/widgets/dependent", "", http.StatusOK)

	// The repair is what etcd is given.
	e.put("secrets/default/a", good)
	e.remove("secrets/default/b")
	e.eventually("repair", func() bool {
		code, _ := e.request(http.MethodGet, secretsPath, "")
		return code == http.StatusOK
	})
}

// A KMS plugin is away and comes back.
func TestEncryptionKMSAway(t *testing.T) {
	plugin := enc.NewPlugin(t)
	intervals := quickIntervals()
	intervals.SeedTTL = 5 * time.Second // more than a machine that is busy takes for what is done while it is good
	e := newEncrypted(t, enc.Config(enc.Entry("secrets", plugin.Provider("vault"))), intervals)
	e.wantCode(http.MethodPost, secretsPath, secretBody("a", 0), http.StatusCreated)
	e.eventually("well", func() bool {
		code, body := e.text("/readyz/kms-providers")
		return code == http.StatusOK && body == "ok"
	})

	plugin.Stop()
	e.eventually("unhealthy", func() bool { code, _ := e.text("/readyz"); return code != http.StatusOK })
	for path, want := range map[string]string{
		"/healthz": "[-]kms-providers failed: reason withheld\n", "/readyz": "[-]kms-providers failed: reason withheld\n",
		"/healthz/kms-providers": `kms provider "vault": status: `,
	} {
		if code, body := e.text(path); code != http.StatusInternalServerError || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := e.text("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s: a restart does not help", code, body)
	}
	e.eventually("expiry of the seed", func() bool {
		code, _ := e.request(http.MethodPut, secretsPath+"/a", secretBody("a", 1))
		return code != http.StatusOK
	})
	out := e.wantCode(http.MethodPut, secretsPath+"/a", secretBody("a", 2), http.StatusServiceUnavailable)
	if member(out, "details.retryAfterSeconds") == "<absent>" || !strings.Contains(member(out, "message"), "vault") {
		t.Errorf("a write: %v", out)
	}
	e.wantCode(http.MethodGet, secretsPath+"/a", "", http.StatusOK)
	e.wantCode(http.MethodGet, secretsPath+"?resourceVersionMatch=Exact&resourceVersion="+e.exact(), "", http.StatusOK)
	e.wantCode(http.MethodPost, configMapsPath, configMapBody("other", ""), http.StatusCreated)

	// Started without its plugin the server serves what needs none, and says of the rest that it is to be tried again.
	if err := e.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.wantCode(http.MethodGet, configMapsPath+"/other", "", http.StatusOK)
	e.wantCode(http.MethodGet, secretsPath+"/a", "", http.StatusServiceUnavailable)

	plugin.Start()
	e.eventually("health", func() bool { code, _ := e.text("/readyz"); return code == http.StatusOK })
	e.wantCode(http.MethodPut, secretsPath+"/a", secretBody("a", 3), http.StatusOK)
	old := e.row("secrets/default/a")

	// Another key id makes all rows stale.
	plugin.Rotate("2")
	e.eventually("rotation", func() bool {
		e.rewrite("a", "k8s:enc:kms:v2:vault:")
		return e.row("secrets/default/a") != old
	})
	if row := e.row("secrets/default/a"); bytes.Contains([]byte(row), []byte(password)) {
		t.Error("plain text")
	}
}

// A plugin whose vault is away, or which hangs, makes no row one that cannot be read: what needs it is to be tried again,
// watches wait, and nothing is deleted as unreadable.
func TestEncryptionKMSRefuses(t *testing.T) {
	plugin := enc.NewPlugin(t)
	e := newEncrypted(t, enc.Config(enc.Entry("secrets", plugin.Provider("vault"))), quickIntervals())
	e.wantCode(http.MethodPost, secretsPath, secretBody("a", 0), http.StatusCreated)

	// Another server has written with its own seed when the vault goes away.
	another, err := encryption.Open(t.Context(), encryption.Config{File: e.file})
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	b, err := another.For(schema.GroupResource{Resource: "secrets"}).TransformToStorage(t.Context(),
		[]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"creationTimestamp":"2024-01-01T00:00:00Z","name":"b","namespace":"default",`+
			`"uid":"11111111-2222-3333-4444-555555555555"},"type":"Opaque"}`), value.Key("/registry/secrets/default/b"))
	if err != nil {
		t.Fatal(err)
	}
	watch, err := e.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	next := func() string {
		select {
		case event, ok := <-watch.ResultChan():
			if !ok {
				return "the end of the watch"
			}
			name, _ := meta.NewAccessor().Name(event.Object)
			return fmt.Sprint(event.Type, " ", name)
		case <-time.After(20 * time.Second):
			return "nothing"
		}
	}
	if got := next(); got != "ADDED a" {
		t.Fatalf("the watch gives %s, want a", got)
	}
	plugin.SetHealthz("the vault is sealed")
	plugin.Refuse(codes.Unknown)
	e.put("secrets/default/b", string(b))
	wantAway := func(what string) {
		t.Helper()
		for _, tc := range []struct{ method, path, body string }{
			{http.MethodGet, secretsPath + "/b", ""}, {http.MethodGet, secretsPath, ""},
			{http.MethodDelete, secretsPath + "/b", `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`},
		} {
			out := e.wantCode(tc.method, tc.path, tc.body, http.StatusServiceUnavailable)
			if member(out, "details.retryAfterSeconds") == "<absent>" || !strings.Contains(member(out, "message"), "vault") {
				t.Errorf("%s: %s %s: %v", what, tc.method, tc.path, out)
			}
		}
		if e.row("secrets/default/b") != string(b) {
			t.Errorf("%s: the row has changed", what)
		}
	}
	e.wantCode(http.MethodGet, secretsPath+"/a?resourceVersion=0", "", http.StatusOK)
	wantAway("sealed")
	plugin.SetHealthz("ok")
	plugin.Refuse(codes.OK)
	if got := next(); got != "ADDED b" {
		t.Errorf("the watch gives %s, want b", got)
	}

	plugin.SetHealthz("the vault is sealed")
	plugin.Refuse(codes.Unknown)
	if err := e.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantAway("sealed from the start")
	plugin.SetHealthz("ok")
	plugin.Refuse(codes.OK)
	goOn := plugin.Hang()
	defer goOn()
	if err := e.env.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantAway("hanging")
	goOn()
	e.eventually("recovery", func() bool { code, _ := e.request(http.MethodGet, secretsPath+"/b", ""); return code == http.StatusOK })
}

// A file that is no configuration stops a start, and changes nothing later; it is told of.
func TestEncryptionBadFile(t *testing.T) {
	good := enc.Config(enc.Entry("secrets", enc.Keys("secretbox", "a")))
	bad := strings.ReplaceAll(good, "secretbox:", "rot13:")
	e := newEncrypted(t, good, quickIntervals())
	enc.Write(t, e.file, bad)
	e.eventually("a warning", func() bool {
		code, body := e.text("/readyz?verbose")
		return code == http.StatusOK && strings.Contains(body, "[+]encryption-config ok, with a warning: ")
	})
	if code, body := e.text("/healthz/encryption-config"); code != http.StatusOK || !strings.HasPrefix(body, "ok\nwarning: ") ||
		!strings.Contains(body, "rot13") || strings.Contains(body, enc.Secret("a")) {
		t.Errorf("got %d %s", code, body)
	}
	e.wantCode(http.MethodPost, secretsPath, secretBody("a", 0), http.StatusCreated)
	if row := e.row("secrets/default/a"); !strings.HasPrefix(row, "k8s:enc:secretbox:v1:a:") {
		t.Errorf("row %.40q", row)
	}
	if _, body := e.text("/metrics"); !strings.Contains(body, `automatic_reloads_total{status="failure"}`) {
		t.Error("no metric")
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := server.New(ctx, server.Config{DataDir: t.TempDir(), UnsafeNoFsync: true, EncryptionProviderConfig: e.file})
	if err == nil || !strings.Contains(err.Error(), "rot13") || !strings.Contains(err.Error(), e.file) {
		t.Errorf("started, %v", err)
	}
	err = (&server.Config{BindAddress: "127.0.0.1", EncryptionProviderConfig: e.file + "x"}).Validate()
	if err == nil || !strings.Contains(err.Error(), "--encryption-provider-config") {
		t.Errorf("got %v", err)
	}
}
