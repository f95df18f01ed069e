package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Lifetimes of what a first start makes. Leaves that have less than renewBefore left are made anew at a start.
const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	renewBefore  = 30 * 24 * time.Hour
)

// Certificates are the files of a server's own certification authority, below its data directory.
type Certificates struct {
	CAFile, ServingCertFile, ServingKeyFile, AdminCertFile, AdminKeyFile string
}

// EnsureCertificates makes what is missing in dir: an authority, a serving certificate for hosts
// (names or addresses; localhost and loopback are always among them) and a client certificate of
// system:masters. What is there is used again, unless it ends soon or lacks a host.
func EnsureCertificates(dir string, hosts []string, now time.Time) (*Certificates, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	files := &Certificates{CAFile: path("ca.crt"), ServingCertFile: path("apiserver.crt"), ServingKeyFile: path("apiserver.key"),
		AdminCertFile: path("admin.crt"), AdminKeyFile: path("admin.key")}
	ca, caKey, err := ensureCA(files.CAFile, path("ca.key"), now)
	if err != nil {
		return nil, err
	}
	serving := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "weir"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range append([]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1"}, hosts...) {
		if ip := net.ParseIP(host); ip != nil {
			serving.IPAddresses = append(serving.IPAddresses, ip)
		} else if host != "" {
			serving.DNSNames = append(serving.DNSNames, host)
		}
	}
	if err := ensureLeaf(files.ServingCertFile, files.ServingKeyFile, serving, ca, caKey, now); err != nil {
		return nil, err
	}
	admin := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "weir-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	return files, ensureLeaf(files.AdminCertFile, files.AdminKeyFile, admin, ca, caKey, now)
}

func ensureCA(certFile, keyFile string, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	cert, key, err := readPair(certFile, keyFile)
	if err == nil {
		return cert, key, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("certificates: %w; repair or remove the file, then start again", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "weir-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	return writePair(certFile, keyFile, template, nil, nil, now, caLifetime)
}

func ensureLeaf(certFile, keyFile string, template, ca *x509.Certificate, caKey crypto.Signer, now time.Time) error {
	cert, _, err := readPair(certFile, keyFile)
	if err == nil && now.Add(renewBefore).Before(cert.NotAfter) && covers(cert, template) && cert.CheckSignatureFrom(ca) == nil {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("certificates: %w; repair or remove the file, then start again", err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, _, err = writePair(certFile, keyFile, template, ca, caKey, now, leafLifetime)
	return err
}

// covers reports whether cert is good for every host of template.
func covers(cert, template *x509.Certificate) bool {
	for _, name := range template.DNSNames {
		if cert.VerifyHostname(name) != nil {
			return false
		}
	}
	for _, ip := range template.IPAddresses {
		if cert.VerifyHostname(ip.String()) != nil {
			return false
		}
	}
	return true
}

// writePair signs template with ca, or with its own key when ca is nil, and writes both files; the key is for the owner alone.
func writePair(certFile, keyFile string, template, ca *x509.Certificate, caKey crypto.Signer, now time.Time, lifetime time.Duration) (*x509.Certificate, crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificates: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("certificates: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-5*time.Minute), now.Add(lifetime)
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("certificates: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificates: %w", err)
	}
	if err := writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600); err != nil {
		return nil, nil, err
	}
	if err := writeFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func readPair(certFile, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, nil, fmt.Errorf("%s holds no certificate", certFile)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", certFile, err)
	}
	keyBlock, _ := pem.Decode(keyPEM)
	if keyBlock == nil {
		return nil, nil, fmt.Errorf("%s holds no key", keyFile)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s holds a %T, which cannot sign", keyFile, parsed)
	}
	return cert, key, nil
}

// writeFile replaces a file as a whole: a crash leaves the old one or the new one.
func writeFile(name string, data []byte, mode os.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already when all went well
	if err := temporary.Chmod(mode); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if _, err := temporary.Write(data); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
