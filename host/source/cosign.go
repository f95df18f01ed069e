package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// The form of cosign's signatures of images (github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md): a manifest under the
// tag sha256-<hex>.sig of the same repository, with one layer for each signature. The layer is a document in the format
// of Red Hat's simple signing that names the digest of a manifest; an annotation has its signature.
const (
	cosignSuffix     = ".sig"
	cosignMediaType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	cosignAnnotation = "dev.cosignproject.cosign/signature"
	cosignType       = "cosign container image signature"

	// maxSignatures and maxPayloadBytes bound what is looked at: whoever may push can add signatures.
	maxSignatures   = 64
	maxPayloadBytes = 64 << 10
)

// simpleSigning is what cosign signs.
type simpleSigning struct {
	Critical struct {
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
}

// cosignTag is where the signatures of a manifest are.
func cosignTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + cosignSuffix }

// verifySigned implements signer.
func (i *Image) verifySigned(ctx context.Context, a *Artefact, keys *PublicKeys) error {
	puller, err := i.puller()
	if err != nil {
		return err
	}
	var reasons []error
	for _, digest := range a.signed {
		err := i.verifyManifest(ctx, puller, digest, keys)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrSignature) {
			return err
		}
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return fmt.Errorf("%w: the artefact is of another source", ErrSignature)
	}
	return reasons[0]
}

// verifyManifest looks for a good signature of one manifest.
func (i *Image) verifyManifest(ctx context.Context, puller *remote.Puller, digest string, keys *PublicKeys) error {
	got, err := puller.Get(ctx, i.ref.Context().Tag(cosignTag(digest)))
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%w: %s has none (cosign's tag %s is not there)", ErrSignature, i.ref, cosignTag(digest))
	}
	if err != nil {
		return fmt.Errorf("signature: %w", registryError(err))
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(got.Manifest))
	if err != nil {
		return fmt.Errorf("signature: manifest: %w", err)
	}
	seen := 0
	problem := fmt.Errorf("%w: %s has none in the format of cosign's simple signing", ErrSignature, i.ref)
	for _, layer := range manifest.Layers {
		if layer.MediaType != cosignMediaType {
			continue
		}
		if seen++; seen > maxSignatures {
			return fmt.Errorf("%w: none of the first %d is good", ErrSignature, maxSignatures)
		}
		if layer.Size > maxPayloadBytes {
			continue
		}
		signature, err := ParseSignature([]byte(layer.Annotations[cosignAnnotation]))
		if err != nil {
			problem = fmt.Errorf("%w: %w", ErrSignature, err)
			continue
		}
		payload, err := i.blob(ctx, puller, layer, maxPayloadBytes)
		if err != nil {
			return fmt.Errorf("signature: %w", err)
		}
		if !keys.verify(payload, signature) {
			problem = fmt.Errorf("%w: %s is signed by another key, or its signature was changed", ErrSignature, i.ref)
			continue
		}
		if err := checkPayload(payload, digest); err != nil {
			problem = err
			continue
		}
		return nil
	}
	return problem
}

// checkPayload reports whether what was signed names a manifest.
func checkPayload(payload []byte, digest string) error {
	var signed simpleSigning
	if err := json.Unmarshal(payload, &signed); err != nil {
		return fmt.Errorf("%w: what is signed is not JSON: %w", ErrSignature, err)
	}
	if signed.Critical.Type != cosignType {
		return fmt.Errorf("%w: what is signed is %q, not %q", ErrSignature, signed.Critical.Type, cosignType)
	}
	if signed.Critical.Image.Digest != digest {
		return fmt.Errorf("%w: it is for the image %s, not for %s", ErrSignature, signed.Critical.Image.Digest, digest)
	}
	return nil
}

// Signable returns the digests that a signature may be for: of the manifest, and of the index it is in.
func (a *Artefact) Signable() []string { return slices.Clone(a.signed) }
