package server

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func readCert(t *testing.T, certFile, keyFile string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestEnsureCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Now()
	files, err := EnsureCertificates(dir, []string{"127.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	authority, err := os.ReadFile(files.CAFile)
	if err != nil || !pool.AppendCertsFromPEM(authority) {
		t.Fatalf("authority: %v", err)
	}
	serving := readCert(t, files.ServingCertFile, files.ServingKeyFile)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc"} {
		if _, err := serving.Verify(x509.VerifyOptions{Roots: pool, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	admin := readCert(t, files.AdminCertFile, files.AdminKeyFile)
	if _, err := admin.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if len(admin.Subject.Organization) != 1 || admin.Subject.Organization[0] != "system:masters" {
		t.Errorf("organization %q", admin.Subject.Organization)
	}
	for _, name := range []string{files.ServingKeyFile, files.AdminKeyFile, filepath.Join(dir, "ca.key")} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}

	serials := func() [2]string {
		return [2]string{readCert(t, files.ServingCertFile, files.ServingKeyFile).SerialNumber.String(),
			readCert(t, files.AdminCertFile, files.AdminKeyFile).SerialNumber.String()}
	}
	first := serials()
	tests := []struct {
		name                   string
		hosts                  []string
		now                    time.Time
		newServing, newAdmin   bool
		mustStillVerifyAgainst *x509.CertPool
	}{
		{"all is used again", []string{"127.0.0.1"}, now, false, false, pool},
		{"another host needs another certificate", []string{"10.1.2.3"}, now, true, false, pool},
		{"what ends soon is made anew", []string{"10.1.2.3"}, now.Add(leafLifetime - 24*time.Hour), true, true, pool},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := EnsureCertificates(dir, tc.hosts, tc.now); err != nil {
				t.Fatal(err)
			}
			next := serials()
			if (next[0] != first[0]) != tc.newServing || (next[1] != first[1]) != tc.newAdmin {
				t.Errorf("serials %v, before %v", next, first)
			}
			first = next
			cert := readCert(t, files.ServingCertFile, files.ServingKeyFile)
			if _, err := cert.Verify(x509.VerifyOptions{Roots: tc.mustStillVerifyAgainst, CurrentTime: tc.now}); err != nil {
				t.Error(err)
			}
		})
	}

	if err := os.WriteFile(files.CAFile, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureCertificates(dir, nil, now); err == nil || !strings.Contains(err.Error(), "repair or remove") {
		t.Errorf("a damaged authority: %v", err)
	}
}

func TestWriteKubeconfig(t *testing.T) {
	dir := t.TempDir()
	files, err := EnsureCertificates(dir, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "admin.kubeconfig")
	if err := WriteKubeconfig(name, "https://127.0.0.1:1234", files); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", name)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:1234" || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		t.Errorf("host %q, ca %d, cert %d, key %d bytes", config.Host, len(config.CAData), len(config.CertData), len(config.KeyData))
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
