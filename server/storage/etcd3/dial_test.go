package etcd3_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// authority signs certificates for a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", "")
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes <name>.crt and <name>.key, for an address, a name or, with "", a client.
func (a *authority) issue(t *testing.T, name, host string) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = template, key
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else if host != "" {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// tlsProxy is TLS with client certificates in front of an etcd.
type tlsProxy struct {
	config *tls.Config
	etcd   string
	// url is where it listens, by the name of its certificate.
	url string
	// handshakes counts the connections whose client it knew.
	handshakes atomic.Int64

	mu   sync.Mutex
	open map[net.Conn]struct{} // nil when it is down; guarded by mu
	work sync.WaitGroup
}

// newTLSProxy starts a proxy whose certificate is for host, which must be on the loopback.
func newTLSProxy(t *testing.T, a *authority, host, etcd string) *tlsProxy {
	t.Helper()
	name := "server-" + host
	a.issue(t, name, host)
	pair, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	p := &tlsProxy{etcd: etcd, config: &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	}}
	// It listens also when it is down, and closes what comes: another might take its port.
	l, err := tls.Listen("tcp", "127.0.0.1:0", p.config)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.url = "https://" + net.JoinHostPort(host, port)
	p.up()
	p.work.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(front) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.down()
		p.work.Wait()
	})
	return p
}

// up takes connections, again after down.
func (p *tlsProxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = map[net.Conn]struct{}{}
}

// down drops all connections and takes no more.
func (p *tlsProxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	p.open = nil
}

// hold keeps the connections of a client for down to close, unless it is down, or was since the first came.
func (p *tlsProxy) hold(c net.Conn, first net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.open[first]; p.open == nil || first != nil && !ok {
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *tlsProxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	_ = c.Close()
}

func (p *tlsProxy) serve(front net.Conn) {
	defer p.drop(front)
	if !p.hold(front, nil) || front.(*tls.Conn).Handshake() != nil {
		return
	}
	p.handshakes.Add(1)
	back, err := net.Dial("tcp", p.etcd)
	if err != nil {
		return
	}
	defer p.drop(back)
	if !p.hold(back, front) {
		return
	}
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{front, back}, {back, front}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	both.Wait()
}

func TestDialTLS(t *testing.T) {
	t.Parallel()
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	a := newAuthority(t)
	a.issue(t, "client", "")
	proxy := newTLSProxy(t, a, "127.0.0.1", e.Addr().String())
	other := newAuthority(t)
	other.issue(t, "client", "")
	tests := []struct {
		name string
		cfg  etcd3.DialConfig
		ok   bool
	}{
		{"trusted", etcd3.DialConfig{CAFile: a.file("ca.crt"), CertFile: a.file("client.crt"), KeyFile: a.file("client.key")}, true},
		{"no client certificate", etcd3.DialConfig{CAFile: a.file("ca.crt")}, false},
		{"a client of another authority", etcd3.DialConfig{CAFile: a.file("ca.crt"), CertFile: other.file("client.crt"), KeyFile: other.file("client.key")}, false},
		{"a server of another authority", etcd3.DialConfig{CAFile: other.file("ca.crt"), CertFile: a.file("client.crt"), KeyFile: a.file("client.key")}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.cfg.Endpoints = []string{proxy.url}
			client := dial(t, tc.cfg)
			store := newStore(t, etcd3.Config{Client: client, RequestTimeout: 300 * time.Millisecond})
			if tc.ok {
				store = newStore(t, etcd3.Config{Client: client})
			}
			o := storagetest.NewObject("a")
			_, err := store.Create(t.Context(), o.Key(), o.JSON(), 0)
			if tc.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if code := storage.CodeOf(err); code != storage.ErrCodeTimeout && code != storage.ErrCodeUnreachable {
				t.Errorf("got error %v, want a timeout or unreachable", err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDialTLSEndpoints: of two endpoints, each with a certificate for its own name, one may go at any time, and come back
// for the other to go: reads do not notice, writes go on, and a watch misses and repeats nothing.
func TestDialTLSEndpoints(t *testing.T) {
	t.Parallel()
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	a := newAuthority(t)
	a.issue(t, "client", "")
	first, second := newTLSProxy(t, a, "127.0.0.1", e.Addr().String()), newTLSProxy(t, a, "localhost", e.Addr().String())
	client := dialMembers(t, etcd3.DialConfig{Endpoints: []string{first.url, second.url},
		CAFile: a.file("ca.crt"), CertFile: a.file("client.crt"), KeyFile: a.file("client.key")}).Client()
	store := newStore(t, etcd3.Config{Client: client, Prefix: storagetest.Root})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	opts := everything()
	opts.ResourceVersion = "1"
	watcher, err := store.Watch(ctx, storagetest.Prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()

	var want []string
	write := func(phase string) {
		t.Helper()
		for i := range 20 {
			o := storagetest.NewObject(fmt.Sprintf("%s-%d", phase, i))
			for refused := 0; ; refused++ {
				_, err := store.Create(ctx, o.Key(), o.JSON(), 0)
				if err == nil || refused > 0 && storage.CodeOf(err) == storage.ErrCodeKeyExists {
					break // it may have been done, and its answer lost
				}
				if code := storage.CodeOf(err); code != storage.ErrCodeTimeout && code != storage.ErrCodeUnreachable || ctx.Err() != nil {
					t.Fatalf("%s: create: %v", phase, err)
				}
			}
			if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); err != nil {
				t.Fatalf("%s: get: %v", phase, err)
			}
			want = append(want, o.Key())
		}
	}
	// connected waits for one more connection than there were.
	connected := func(p *tlsProxy, before int64) {
		t.Helper()
		for p.handshakes.Load() <= before {
			if _, err := store.GetCurrentResourceVersion(ctx); err != nil {
				t.Fatalf("no connection to %s: %v", p.url, err)
			}
		}
	}
	connected(first, 0)
	connected(second, 0)
	write("both")
	first.down()
	write("second")
	before := first.handshakes.Load()
	first.up()
	connected(first, before)
	second.down()
	write("first")

	var got []string
	for last := uint64(0); len(got) < len(want); {
		events, err := watcher.Next(ctx)
		if err != nil {
			t.Fatalf("watch after %d of %d: %v", len(got), len(want), err)
		}
		for _, e := range events {
			if e.Type != storage.Added || e.Row.ResourceVersion <= last {
				t.Errorf("%s %s at %d after %d", e.Type, e.Row.Key, e.Row.ResourceVersion, last)
			}
			last = e.Row.ResourceVersion
			got = append(got, e.Row.Key)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the watch has seen %v, want %v", got, want)
	}
}

func TestDialConfig(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	one := []string{"127.0.0.1:1"}
	for name, cfg := range map[string]etcd3.DialConfig{
		"no endpoint":           {},
		"empty endpoint":        {Endpoints: []string{""}},
		"certificate alone":     {Endpoints: one, CertFile: empty},
		"key alone":             {Endpoints: one, KeyFile: empty},
		"missing ca":            {Endpoints: one, CAFile: filepath.Join(dir, "none")},
		"empty ca":              {Endpoints: one, CAFile: empty},
		"unreadable key pair":   {Endpoints: one, CertFile: empty, KeyFile: empty},
		"negative object limit": {Endpoints: one, MaxObjectBytes: -1},
	} {
		if _, err := etcd3.Dial(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
