package source

import (
	"context"
	"errors"
	"fmt"
)

// Expectation is what must hold of an artefact. The zero value expects nothing.
type Expectation struct {
	// Digest of the module, unpacked; "": any.
	Digest string
	// Keys that may sign; nil: no signature is wanted.
	Keys *PublicKeys
	// Signature is a detached one, of the bytes as the source has them or of the module unpacked.
	Signature []byte
	// SignatureURL is where the detached signature is, in base64, unless it is in Signature. Artefacts of registries need
	// neither: their signatures are beside them.
	SignatureURL string
}

// signer is a source that has signatures itself.
type signer interface {
	// verifySigned checks what the source has.
	verifySigned(ctx context.Context, a *Artefact, keys *PublicKeys) error
}

// Verify reports whether an artefact is what is wanted.
//
// # Errors
//
// ErrDigest, ErrSignature, or what says why the signature cannot be fetched or read.
func (c *Client) Verify(ctx context.Context, from Source, a *Artefact, want *Expectation) error {
	if want.Digest != "" && want.Digest != a.Digest {
		return fmt.Errorf("%w: the source has digest %s, %s is wanted", ErrDigest, a.Digest, want.Digest)
	}
	if want.Keys == nil {
		return nil
	}
	ctx, cancel := c.timeout(ctx)
	defer cancel()
	detached := want.Signature
	if len(detached) == 0 && want.SignatureURL != "" {
		u, err := parseURL(want.SignatureURL)
		if err != nil {
			return fmt.Errorf("signature: %w", err)
		}
		text, err := c.get(ctx, u, maxSignatureBytes)
		if err != nil {
			return fmt.Errorf("signature: %w", err)
		}
		if detached, err = ParseSignature(text); err != nil {
			return err
		}
	}
	if len(detached) > 0 {
		return verifyDetached(a, detached, want.Keys)
	}
	if s, ok := from.(signer); ok {
		return s.verifySigned(ctx, a, want.Keys)
	}
	return errors.New("signature: none is given, and the source has none itself")
}

func verifyDetached(a *Artefact, signature []byte, keys *PublicKeys) error {
	if keys.verify(a.Packed, signature) || keys.verify(a.Module, signature) {
		return nil
	}
	return fmt.Errorf("%w: the detached signature is of other bytes or by another key", ErrSignature)
}
