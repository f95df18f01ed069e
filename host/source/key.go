package source

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	minRSABits = 2048
	maxRSABits = 8192
	// maxKeys bounds the keys that may sign for one module.
	maxKeys = 16
	// maxSignatureBytes bounds a signature in base64; that of the largest RSA key is 1,368.
	maxSignatureBytes = 4 << 10
)

// PublicKeys verify signatures: that of any of the keys is good, so that a key can be replaced.
type PublicKeys struct{ keys []crypto.PublicKey }

// ParsePublicKeys reads public keys in PEM (PUBLIC KEY, that is PKIX): ECDSA on P-256, Ed25519, or RSA of 2048 to 8192
// bits, as `cosign generate-key-pair` and `openssl pkey -pubout` write them.
func ParsePublicKeys(text []byte) (*PublicKeys, error) {
	p := &PublicKeys{}
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("public key: not PEM: it begins with -----BEGIN PUBLIC KEY-----")
		}
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("public key: PEM has %s, PUBLIC KEY is wanted", block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("public key: %w", err)
		}
		if err := checkKey(key); err != nil {
			return nil, fmt.Errorf("public key: %w", err)
		}
		if p.keys = append(p.keys, key); len(p.keys) > maxKeys {
			return nil, fmt.Errorf("public key: more than %d keys", maxKeys)
		}
	}
	if len(p.keys) == 0 {
		return nil, errors.New("public key: there is none")
	}
	return p, nil
}

func checkKey(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return fmt.Errorf("ECDSA on %s, P-256 is wanted", k.Params().Name)
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("RSA of %d bits, %d to %d are wanted", bits, minRSABits, maxRSABits)
		}
	default:
		return fmt.Errorf("%T is neither ECDSA, Ed25519 nor RSA", key)
	}
	return nil
}

// verify reports whether one of the keys made a signature of data, as cosign does with a key: ECDSA (ASN.1) and RSA
// (PKCS #1 v1.5) over SHA-256, Ed25519 over the data or, as Ed25519ph, over SHA-512.
func (p *PublicKeys) verify(data, signature []byte) bool {
	sum, long := sha256.Sum256(data), sha512.Sum512(data)
	for _, key := range p.keys {
		good := false
		switch k := key.(type) {
		case *ecdsa.PublicKey:
			good = ecdsa.VerifyASN1(k, sum[:], signature)
		case ed25519.PublicKey:
			good = ed25519.Verify(k, data, signature) ||
				ed25519.VerifyWithOptions(k, long[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
		case *rsa.PublicKey:
			good = rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], signature) == nil
		}
		if good {
			return true
		}
	}
	return false
}

// ParseSignature decodes a signature in base64, as `cosign sign-blob` writes it.
func ParseSignature(text []byte) ([]byte, error) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return nil, errors.New("signature: there is none")
	case len(text) > maxSignatureBytes:
		return nil, fmt.Errorf("signature: %w: more than %d characters", ErrTooLarge, maxSignatureBytes)
	}
	signature, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return nil, fmt.Errorf("signature: not base64: %w", err)
	}
	return signature, nil
}
