package semantics_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

const (
	matrixNamespace = "matrix"
	matrixGroup     = "matrix.weir.test"
)

// matrixServer is what the matrix is asked of: this server, or a kube-apiserver whose answers become the
// golden ones.
type matrixServer struct {
	url    string
	client *http.Client
	etcd   *clientv3.Client
	// cached says that it has a watch cache.
	cached bool
	// compacted is how long after a compaction caches know of it.
	compacted time.Duration
}

// startMatrixServer starts this server on an etcd of its own, which can be compacted.
func startMatrixServer(t *testing.T, cached bool) *matrixServer {
	t.Helper()
	etcd, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	env := servertest.Start(t, servertest.Options{Config: server.Config{
		EtcdServers: []string{"http://" + etcd.Addr().String()}, Storage: server.StorageConfig{DisableWatchCache: !cached}}})
	return &matrixServer{url: env.URL(), client: env.Client(), etcd: etcd.Client(), cached: cached}
}

// dialMatrixServer returns the kube-apiserver that the environment names, false when it names none.
func dialMatrixServer(t *testing.T) (*matrixServer, bool) {
	t.Helper()
	url := os.Getenv("WEIR_MATRIX_URL")
	if url == "" {
		return nil, false
	}
	pem, err := os.ReadFile(os.Getenv("WEIR_MATRIX_CA"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv("WEIR_MATRIX_ETCD")}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	// A cacher of upstream asks every 15 s for the revision that was compacted.
	return &matrixServer{url: url, etcd: etcd, compacted: 17 * time.Second, cached: os.Getenv("WEIR_MATRIX_CACHE") != "false",
		client: &http.Client{Transport: bearer{os.Getenv("WEIR_MATRIX_TOKEN"), transport}}}, true
}

// bearer adds a token to requests.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(req)
}

// compact drops the history before rev as a fellow apiserver does, which tells the others.
func (s *matrixServer) compact(t *testing.T, rev uint64) {
	t.Helper()
	if _, err := s.etcd.Put(t.Context(), "compact_rev_key", strconv.FormatUint(rev, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.etcd.Compact(t.Context(), int64(rev)); err != nil {
		t.Fatal(err)
	}
}

// send returns the response to a request whose path may name variables.
func (s *matrixServer) send(ctx context.Context, r matrixRequest) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.target, strings.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "matrix/1.0")
	switch {
	case r.contentType != "":
		req.Header.Set("Content-Type", r.contentType)
	case r.method == http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	return s.client.Do(req)
}

// must sends a request that has to succeed, or fail with the code that is also fine, and returns the answer.
func (s *matrixServer) must(t *testing.T, method, target, body string, fine ...int) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := s.send(ctx, matrixRequest{method: method, target: target, body: body})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	ok := resp.StatusCode < 300
	for _, code := range fine {
		ok = ok || resp.StatusCode == code
	}
	if !ok {
		t.Fatalf("%s %s: %d: %s", method, target, resp.StatusCode, text)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// matrixWorld is a collection with a history, and the names of its moments.
//
// Its objects are a to g. Those with the label app=x: a, c, e, and f until it is changed and g.
//
//	a1 b1 c1 d1 e1 b2=OLD (page: OLDPAGE) c2=COMPACTED d2 f1=N a2 f2 (page: PAGE) g1 d3 (deleted) e2 c3=LATEST … c (the mark)
type matrixWorld struct {
	server *matrixServer
	name   string // of the resource
	path   string // of the collection
	all    string // of the collection in all namespaces
	item   string // an object without its metadata's end

	objects   map[uint64]string // names of the revisions of objects, such as c3
	revisions map[uint64]string // names of other moments
	vars      map[string]string
	latest    uint64
}

// future is a revision that the servers of a test do not reach.
const future = "987654321"

// prepareMatrix makes the namespace, the definition and the worlds.
func prepareMatrix(t *testing.T, s *matrixServer) []*matrixWorld {
	t.Helper()
	for _, ns := range []string{matrixNamespace, matrixNamespace + "-writes", matrixNamespace + "-empty"} {
		s.must(t, "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+ns+`"}}`, http.StatusConflict)
	}
	definition, err := json.Marshal((&definition{}).object(matrixGroup))
	if err != nil {
		t.Fatal(err)
	}
	s.must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", string(definition), http.StatusConflict)
	worlds := []*matrixWorld{
		newMatrixWorld(s, "configmaps", "/api/v1", `"v1","kind":"ConfigMap"`),
		newMatrixWorld(s, "things", "/apis/"+matrixGroup+"/v1", `"`+matrixGroup+`/v1","kind":"Thing"`),
	}
	for _, w := range worlds {
		w.awaitServed(t)
		for _, ns := range []string{"", "-writes"} {
			s.must(t, "DELETE", strings.Replace(w.path, "/matrix/", "/matrix"+ns+"/", 1), "")
		}
		w.past(t)
	}
	for _, w := range worlds {
		// A cache that has heard of no revision after the one to come would be filled again if its watch of etcd broke off
		// now, and would have no past.
		s.must(t, "GET", w.path, "")
	}
	last := worlds[len(worlds)-1]
	s.compact(t, last.revisionOf("c2"))
	time.Sleep(s.compacted) // only where a foreign server has to learn it, by a poll of its own
	for _, w := range worlds {
		w.present(t)
	}
	return worlds
}

func newMatrixWorld(s *matrixServer, name, root, kind string) *matrixWorld {
	return &matrixWorld{server: s, name: name, path: root + "/namespaces/" + matrixNamespace + "/" + name, all: root + "/" + name,
		item:    `{"apiVersion":` + kind + `,"metadata":{"name":"`,
		objects: map[uint64]string{}, revisions: map[uint64]string{}, vars: map[string]string{"FUTURE": future}}
}

// awaitServed waits until a definition is in force, which takes upstream a while.
func (w *matrixWorld) awaitServed(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if w.server.must(t, "GET", w.path, "", http.StatusNotFound, http.StatusTooManyRequests)["kind"] != "Status" {
			return
		}
		time.Sleep(50 * time.Millisecond) // a poll: a foreign server tells nobody
	}
	t.Fatalf("%s is not served", w.name)
}

// past is the history that is compacted in the end.
func (w *matrixWorld) past(t *testing.T) {
	t.Helper()
	for _, object := range []string{"a x", "b y", "c x", "d y", "e x"} {
		name, app, _ := strings.Cut(object, " ")
		w.create(t, name, app)
	}
	w.setMoment(w.change(t, "b2", `{"metadata":{"annotations":{"v":"2"}}}`), "OLD")
	w.page(t, "OLDPAGE")
	w.change(t, "c2", `{"metadata":{"annotations":{"v":"2"}}}`)
}

// present is the history that is there.
func (w *matrixWorld) present(t *testing.T) {
	t.Helper()
	w.change(t, "d2", `{"metadata":{"annotations":{"v":"2"}}}`)
	w.setMoment(w.create(t, "f", "x"), "N")
	w.change(t, "a2", `{"metadata":{"annotations":{"v":"2"}}}`)
	w.change(t, "f2", `{"metadata":{"labels":{"app":"y"}}}`)
	w.page(t, "PAGE")
	w.create(t, "g", "x")
	w.server.must(t, "DELETE", w.path+"/d", "")
	w.change(t, "e2", `{"metadata":{"annotations":{"v":"2"}}}`)
	w.latest = w.change(t, "c3", `{"metadata":{"annotations":{"v":"3"}}}`)
	w.vars["LATEST"] = strconv.FormatUint(w.latest, 10)
}

// mark ends what watches are compared by.
func (w *matrixWorld) mark(t *testing.T) {
	w.server.must(t, http.MethodPatch, w.path+"/c", `{"metadata":{"annotations":{"v":"4"}}}`)
}

// setMoment gives a moment a name.
func (w *matrixWorld) setMoment(rv uint64, name string) {
	w.revisions[rv] = name
	w.vars[name] = strconv.FormatUint(rv, 10)
}

func (w *matrixWorld) create(t *testing.T, name, app string) uint64 {
	t.Helper()
	return w.learn(w.server.must(t, "POST", w.path, w.item+name+`","labels":{"app":"`+app+`"}}}`), name+"1")
}

// change patches an object; the name of what comes of it begins with the object's.
func (w *matrixWorld) change(t *testing.T, name, patch string) uint64 {
	t.Helper()
	return w.learn(w.server.must(t, http.MethodPatch, w.path+"/"+name[:1], patch), name)
}

func (w *matrixWorld) learn(obj map[string]any, name string) uint64 {
	rv, _ := strconv.ParseUint(text(obj, "metadata", "resourceVersion"), 10, 64)
	w.objects[rv] = name
	return rv
}

func (w *matrixWorld) revisionOf(object string) uint64 {
	for rv, name := range w.objects {
		if name == object {
			return rv
		}
	}
	return 0
}

// page begins a list of pages and keeps the token for the second.
func (w *matrixWorld) page(t *testing.T, name string) {
	t.Helper()
	list := w.server.must(t, "GET", w.path+"?limit=2", "")
	rv, _ := strconv.ParseUint(text(list, "metadata", "resourceVersion"), 10, 64)
	w.revisions[rv] = name
	w.vars[name] = text(list, "metadata", "continue")
}

// forge is a token of upstream's form.
func forge(version string, rv int64, start string) string {
	token, _ := json.Marshal(map[string]any{"v": version, "rv": rv, "start": start}) // nothing in it cannot be marshalled
	return base64.RawURLEncoding.EncodeToString(token)
}

// text is a string within an object, "" where there is none.
func text(obj map[string]any, path ...string) string {
	v, _ := lookup(obj, strings.Join(path, "/"))
	s, _ := v.(string)
	return s
}
