package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Errors that tell what is wrong with a source, for errors.Is. All others say that it cannot be reached or read.
var (
	// ErrTooLarge: there are more bytes than the limit allows, packed or unpacked.
	ErrTooLarge = errors.New("too large")
	// ErrDigest: the bytes are not those that are wanted.
	ErrDigest = errors.New("digest mismatch")
	// ErrSignature: no signature by the key is there, or none that is for these bytes.
	ErrSignature = errors.New("signature is not valid")
	// ErrLogin: a registry wants other credentials, or any.
	ErrLogin = errors.New("the registry refuses the credentials")
)

// Source gives the bytes of a module. It may be used by several goroutines.
type Source interface {
	// Fetch reads the source as it is now. The artefact belongs to the caller.
	//
	// # Errors
	//
	// ErrTooLarge, or whatever says why the source cannot be read. Another attempt may succeed.
	Fetch(ctx context.Context) (*Artefact, error)
	// String names the source in messages, without any credentials.
	String() string
}

// Artefact is what a source had.
type Artefact struct {
	// Module is the WebAssembly module, unpacked.
	Module []byte
	// Packed is what the source itself has, which a detached signature is for. It is Module if nothing was packed.
	Packed []byte
	// Digest of Module, sha256:<64 hexadecimal digits>.
	Digest string
	// Image is the reference by which a registry gives the same again, NAME@sha256:…; "" for other sources.
	Image string
	// signed are the digests of manifests that a signature in the registry may be for.
	signed []string
}

// ImageDigest returns the digest in Image, "" if there is none.
func (a *Artefact) ImageDigest() string {
	_, digest, _ := strings.Cut(a.Image, "@")
	return digest
}

const (
	digestPrefix = "sha256:"
	digestHex    = 2 * sha256.Size
)

// Digest returns the digest of bytes, sha256:<64 hexadecimal digits>.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// CheckDigest reports what keeps a text from being a digest.
func CheckDigest(digest string) error {
	digits, ok := strings.CutPrefix(digest, digestPrefix)
	if !ok || len(digits) != digestHex || strings.Trim(digits, "0123456789abcdef") != "" {
		return fmt.Errorf("digest %q is not sha256: and 64 hexadecimal digits", digest)
	}
	return nil
}

// artefactOf unpacks what a source has.
func artefactOf(packed []byte, limit int64) (*Artefact, error) {
	module, err := unpack(packed, limit)
	if err != nil {
		return nil, err
	}
	return &Artefact{Module: module, Packed: packed, Digest: Digest(module)}, nil
}
