package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage/etcd3"
)

func TestHealth(t *testing.T) {
	g := newGate("still loading")
	h := &health{"/readyz", []check{{"ping", func(context.Context) error { return nil }}, {"configuration", g.check}}}
	m, err := newMux(http.NotFoundHandler(), http.NotFoundHandler(), h)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, string(body)
	}
	tests := []struct {
		name, path string
		reason     error
		code       int
		text       string
	}{
		{"not ready", "/readyz", errors.New("still loading"), 500, "[+]ping ok\n[-]configuration failed: reason withheld\nreadyz check failed\n"},
		{"a warning", "/readyz?verbose", &warning{errors.New("x")}, 200, "[+]ping ok\n[+]configuration ok, with a warning: reason withheld\nreadyz check passed\n"},
		{"one check with a warning", "/readyz/configuration", &warning{errors.New("x")}, 200, "ok\nwarning: x\n"},
		{"ready", "/readyz", nil, 200, "ok"},
		{"verbose", "/readyz?verbose", nil, 200, "[+]ping ok\n[+]configuration ok\nreadyz check passed\n"},
		{"excluded", "/readyz?exclude=configuration&verbose", errors.New("x"), 200, "[+]ping ok\n[+]configuration excluded: ok\nreadyz check passed\n"},
		{"unknown exclusion", "/readyz?exclude=nothing&verbose", nil, 200, "[+]ping ok\n[+]configuration ok\nwarn: some health checks cannot be excluded: no matches for \"nothing\"\nreadyz check passed\n"},
		{"one check", "/readyz/configuration", errors.New("x"), 500, "internal server error: x\n"},
		{"one good check", "/readyz/ping", nil, 200, "ok"},
		{"no such check", "/readyz/pong", nil, 404, "could not find"},
		{"unclean paths are not redirected", "//readyz", nil, 404, "could not find"},
		{"index", "/", nil, 200, `"/readyz/configuration",`},
		{"version", "/version", nil, 200, `"gitVersion": "v1.37`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g.set(tc.reason)
			code, text := get(tc.path)
			if code != tc.code || !strings.Contains(text, tc.text) {
				t.Errorf("%d %q, want %d %q", code, text, tc.code, tc.text)
			}
		})
	}
}

// fullOf is a space that is full in some way.
type fullOf etcd3.FullError

func (f *fullOf) Full() error { return (*etcd3.FullError)(f) }

// An etcd that is being defragmented, which would answer no question, makes a server not ready; to start again would not help.
// One that is full is told of.
func TestHealthOfBlockedEtcd(t *testing.T) {
	c := &clusters{all: []*etcd{{name: "etcd", space: &fullOf{Freeing: true, Blocked: true}}}}
	healthy, ready := c.readiness(&Config{})
	for _, check := range append(healthy, ready...) {
		err := check.ok(t.Context())
		var told *warning
		if fails := check.name == "etcd-readiness"; err == nil || !strings.Contains(err.Error(), "embedded etcd is full") || errors.As(err, &told) == fails {
			t.Errorf("%s: got %#v, want it to fail: %t", check.name, err, fails)
		}
	}
	if len(healthy) != 1 || len(ready) != 2 {
		t.Errorf("%d and %d checks", len(healthy), len(ready))
	}
}

// heedless is the KV of an embedded etcd that somebody defragments: it answers when that is done, whatever the deadline.
type heedless struct {
	clientv3.KV
	done chan struct{}
}

func (h heedless) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	<-h.done
	return &clientv3.GetResponse{}, nil
}

// spacious is a space that is not full.
type spacious struct{}

func (spacious) Full() error { return nil }

// The same where it is not known what keeps it from answering: the checks heed their timeouts.
func TestHealthOfHeedlessEtcd(t *testing.T) {
	for _, embedded := range []bool{true, false} {
		e := &etcd{name: "etcd", client: clientv3.NewCtxClient(t.Context()), closeEtcd: func() error { return nil }}
		if embedded {
			e.space = spacious{}
		}
		kv := heedless{done: make(chan struct{})}
		e.client.KV = kv
		config := &Config{}
		config.Storage.HealthcheckTimeout, config.Storage.ReadycheckTimeout = time.Millisecond, time.Millisecond
		healthy, ready := (&clusters{all: []*etcd{e}}).readiness(config)
		var told *warning
		if err := healthy[0].ok(t.Context()); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &told) != embedded {
			t.Errorf("embedded %t: health is %#v", embedded, err)
		}
		if err := ready[0].ok(t.Context()); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &told) {
			t.Errorf("embedded %t: readiness is %#v", embedded, err)
		}
		close(kv.done)
		for _, c := range []check{healthy[0], ready[0]} {
			for c.ok(t.Context()) != nil { // a millisecond may be too little
				t.Log("not yet")
			}
		}
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name   string
		config Config
		text   string // "" is valid
	}{
		{"zero", Config{}, ""},
		{"address", Config{BindAddress: "localhost"}, "--bind-address"},
		{"port", Config{SecurePort: 70000}, "--secure-port"},
		{"certificate without key", Config{TLSCertFile: "x"}, "go together"},
		{"missing file", Config{TokenAuthFile: "/does/not/exist"}, "--token-auth-file"},
		{"tls for an embedded etcd", Config{EtcdCAFile: "config_test.go"}, "--etcd-servers"},
		{"listen on an external etcd", Config{EtcdServers: []string{"x"}, EmbeddedEtcdListen: "127.0.0.1:1"}, "--embedded-etcd-listen"},
		{"quota of an external etcd", Config{EtcdServers: []string{"x"}, EmbeddedEtcdQuotaBytes: 1 << 30}, "--embedded-etcd-quota-backend-bytes is for the embedded"},
		{"quota in GiB", Config{EmbeddedEtcdQuotaBytes: 8}, "--embedded-etcd-quota-backend-bytes 8: give 16777216 bytes at least"},
		{"quota by default", Config{EtcdServers: []string{"x"}, EmbeddedEtcdQuotaBytes: DefaultEmbeddedEtcdQuotaBytes}, ""},
		{"scheme of an etcd", Config{EtcdServers: []string{"http://etcd:2379", "ftp://x"}}, `--etcd-servers: endpoint "ftp://x"`},
		{"etcd without a host", Config{EtcdServers: []string{"http://"}}, `--etcd-servers: endpoint "http://" has no host`},
		{"prefix", Config{EtcdPrefix: "registry"}, "--etcd-prefix"},
		{"no prefix", Config{EtcdPrefix: "//"}, "--etcd-prefix"},
		{"size given twice", Config{Storage: StorageConfig{WatchCacheSizes: []string{"pods#1", "pods#2"}}}, "--watch-cache-sizes: pods is given twice"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.config.Complete()
			err := tc.config.Validate()
			if (err == nil) != (tc.text == "") || (err != nil && !strings.Contains(err.Error(), tc.text)) {
				t.Errorf("got %v, want %q", err, tc.text)
			}
		})
	}
}
