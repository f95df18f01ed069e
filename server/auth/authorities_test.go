package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeAuthority(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAuthoritiesReload(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	name := filepath.Join(t.TempDir(), "ca.crt")
	if _, err := NewAuthorities(logger, name); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a file: %v", err)
	}
	writeAuthority(t, name)
	a, err := NewAuthorities(logger, name)
	if err != nil {
		t.Fatal(err)
	}
	first := a.Pool()
	if changed, err := a.reload(); changed || err != nil || a.Pool() != first {
		t.Errorf("the same file: changed %v, %v", changed, err)
	}
	if err := os.WriteFile(name, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.reload(); err == nil || !strings.Contains(err.Error(), "holds no certificate") || a.Pool() != first {
		t.Errorf("a broken file: %v", err)
	}
	writeAuthority(t, name)
	if changed, err := a.reload(); !changed || err != nil || a.Pool().Equal(first) {
		t.Errorf("another file: changed %v, %v", changed, err)
	}
}

func TestAuthenticatorConfig(t *testing.T) {
	if _, err := NewAuthenticator(AuthenticatorConfig{}); err == nil {
		t.Error("an empty configuration is accepted")
	}
	name := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(name, []byte("token,user\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := NewAuthenticator(AuthenticatorConfig{Authorities: &Authorities{}, Logger: slog.New(slog.DiscardHandler), TokenFile: name})
	if err == nil || !strings.Contains(err.Error(), "must have at least 3 columns") {
		t.Errorf("a short record: %v", err)
	}
}
