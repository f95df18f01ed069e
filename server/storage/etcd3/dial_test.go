package etcd3_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
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
	a.cert, a.key = a.issue(t, "ca", nil)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes <name>.crt and <name>.key.
func (a *authority) issue(t *testing.T, name string, ip net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
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
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
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

// tlsProxy puts TLS with client certificates in front of an etcd and returns its address.
func tlsProxy(t *testing.T, a *authority, etcd string) string {
	t.Helper()
	a.issue(t, "server", net.IPv4(127, 0, 0, 1))
	pair, err := tls.LoadX509KeyPair(a.file("server.crt"), a.file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
	group.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", etcd)
			if err != nil {
				_ = front.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{front, back}, {back, front}} {
				group.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
					_ = pair[1].Close()
				})
			}
		}
	})
	return l.Addr().String()
}

func TestDialTLS(t *testing.T) {
	t.Parallel()
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	a := newAuthority(t)
	a.issue(t, "client", nil)
	address := tlsProxy(t, a, e.Addr().String())
	other := newAuthority(t)
	other.issue(t, "client", nil)
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
			tc.cfg.Endpoints = []string{"https://" + address}
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
