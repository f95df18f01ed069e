package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of layers that are a module.
const (
	// MediaTypeWasm is that of the CNCF's Wasm OCI artefacts, which Push writes.
	MediaTypeWasm = "application/wasm"
	// MediaTypeContentLayer and MediaTypeModuleLayer are older.
	MediaTypeContentLayer = "application/vnd.wasm.content.layer.v1+wasm"
	MediaTypeModuleLayer  = "application/vnd.module.wasm.content.layer.v1+wasm"
)

// architectureWasm is what the manifest for Wasm in an index says.
const architectureWasm = "wasm"

// ImageOptions say how a registry is asked. The zero value asks anonymously.
type ImageOptions struct {
	// PlainHTTP speaks http to a registry on loopback, where it does not answer to https.
	PlainHTTP bool
	// Credentials for the registry; nil: none.
	Credentials Credentials
}

// Image is a module in an OCI registry.
type Image struct {
	client  *Client
	ref     name.Reference
	options ImageOptions
}

var (
	_ Source = (*Image)(nil)
	_ signer = (*Image)(nil)
)

// Image returns a source of an artefact in an OCI registry. See CheckImage for the form of a reference.
func (c *Client) Image(reference string, options ImageOptions) (*Image, error) {
	ref, err := parseImage(reference, options.PlainHTTP)
	if err != nil {
		return nil, err
	}
	return &Image{client: c, ref: ref, options: options}, nil
}

// CheckImage reports what keeps a text from being the reference of a source: REGISTRY/REPOSITORY with :TAG or
// @sha256:DIGEST, all written out. plainHTTP is for loopback only.
func CheckImage(reference string, plainHTTP bool) error {
	_, err := parseImage(reference, plainHTTP)
	return err
}

func parseImage(reference string, plainHTTP bool) (name.Reference, error) {
	options := []name.Option{name.StrictValidation}
	if plainHTTP {
		options = append(options, name.Insecure)
	}
	if host, rest, ok := strings.Cut(reference, "/"); !ok || rest == "" || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return nil, fmt.Errorf("image %q names no registry: it is REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST", reference)
	}
	ref, err := name.ParseReference(reference, options...)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", reference, err)
	}
	if digest, ok := ref.(name.Digest); ok {
		if err := CheckDigest(digest.DigestStr()); err != nil {
			return nil, fmt.Errorf("image %q: %w", reference, err)
		}
	}
	if host := ref.Context().RegistryStr(); plainHTTP && !loopback(hostname(host)) {
		return nil, fmt.Errorf("image %q: plain http is for loopback only", reference)
	}
	return ref, nil
}

// hostname is a host without its port.
func hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// PinnedImage reports whether a reference has a digest, so that it always gives the same.
func PinnedImage(reference string) bool { return strings.Contains(reference, "@") }

// String implements Source.
func (i *Image) String() string { return i.ref.String() }

// puller asks the registry.
func (i *Image) puller() (*remote.Puller, error) { return remote.NewPuller(i.remoteOptions()...) }

func (i *Image) remoteOptions() []remote.Option {
	keychain := authn.NewMultiKeychain() // anonymous
	if i.options.Credentials != nil {
		keychain = i.options.Credentials
	}
	return []remote.Option{
		remote.WithTransport(guard{i.client, i.options.PlainHTTP}), remote.WithUserAgent(i.client.cfg.UserAgent),
		remote.WithAuthFromKeychain(keychain),
		// Whoever fetches tries again, and tells meanwhile.
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	}
}

// Resolve returns the digest of the manifest that the reference has now, at the price of a request without a body
// where the registry knows that.
func (i *Image) Resolve(ctx context.Context) (string, error) {
	ctx, cancel := i.client.timeout(ctx)
	defer cancel()
	puller, err := i.puller()
	if err != nil {
		return "", err
	}
	if head, err := puller.Head(ctx, i.ref); err == nil {
		return head.Digest.String(), nil
	}
	got, err := puller.Get(ctx, i.ref)
	if err != nil {
		return "", registryError(err)
	}
	return got.Digest.String(), nil
}

// Fetch implements Source.
func (i *Image) Fetch(ctx context.Context) (*Artefact, error) {
	ctx, cancel := i.client.timeout(ctx)
	defer cancel()
	puller, err := i.puller()
	if err != nil {
		return nil, err
	}
	got, err := puller.Get(ctx, i.ref)
	if err != nil {
		return nil, registryError(err)
	}
	signed := []string{got.Digest.String()}
	a, err := i.module(ctx, puller, got, &signed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.ref, err)
	}
	a.Image, a.signed = i.ref.Context().Digest(got.Digest.String()).String(), signed
	return a, nil
}

// module fetches the module of a manifest. The digests that a signature may be for are added to signed.
func (i *Image) module(ctx context.Context, puller *remote.Puller, got *remote.Descriptor, signed *[]string) (*Artefact, error) {
	if got.MediaType.IsIndex() {
		index, err := v1.ParseIndexManifest(bytes.NewReader(got.Manifest))
		if err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		child, err := wasmManifest(index.Manifests)
		if err != nil {
			return nil, err
		}
		if got, err = puller.Get(ctx, i.ref.Context().Digest(child.Digest.String())); err != nil {
			return nil, registryError(err)
		}
		*signed = append(*signed, got.Digest.String())
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(got.Manifest))
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	layer, packed, err := moduleLayer(manifest.Layers)
	if err != nil {
		return nil, err
	}
	limit := i.client.cfg.MaxBytes
	data, err := i.blob(ctx, puller, layer, limit)
	if err != nil {
		return nil, err
	}
	if !packed {
		return artefactOf(data, limit)
	}
	module, err := unpackLayer(data, limit)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", layer.Digest, err)
	}
	return &Artefact{Module: module, Packed: module, Digest: Digest(module)}, nil
}

// wasmManifest chooses the manifest of an index: the only one, or the only one for Wasm.
func wasmManifest(manifests []v1.Descriptor) (v1.Descriptor, error) {
	var found []v1.Descriptor
	for _, m := range manifests {
		if m.MediaType.IsImage() && m.Platform != nil && m.Platform.Architecture == architectureWasm {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Clone(manifests), func(m v1.Descriptor) bool { return !m.MediaType.IsImage() })
	}
	if len(found) != 1 {
		return v1.Descriptor{}, fmt.Errorf("index: %d manifests could be meant, none or several of them for architecture %s", len(found), architectureWasm)
	}
	return found[0], nil
}

// moduleLayer chooses the layer that is the module, or that packs it.
func moduleLayer(layers []v1.Descriptor) (_ v1.Descriptor, packed bool, err error) {
	var modules, archives []v1.Descriptor
	var kinds []string
	for _, l := range layers {
		kinds = append(kinds, string(l.MediaType))
		switch l.MediaType {
		case MediaTypeWasm, MediaTypeContentLayer, MediaTypeModuleLayer:
			modules = append(modules, l)
		case types.OCILayer, types.DockerLayer, types.OCIUncompressedLayer, types.DockerUncompressedLayer:
			archives = append(archives, l)
		}
	}
	switch {
	case len(modules) == 1:
		return modules[0], false, nil
	case len(modules) == 0 && len(archives) == 1:
		return archives[0], true, nil
	case len(layers) == 0:
		return v1.Descriptor{}, false, errors.New("manifest: there is no layer")
	}
	return v1.Descriptor{}, false, fmt.Errorf("manifest: one layer of %s, or of a tar with one module, is wanted, and there are %s",
		MediaTypeWasm, strings.Join(kinds, ", "))
}

// blob fetches a blob. The library compares it with its digest.
func (i *Image) blob(ctx context.Context, puller *remote.Puller, d v1.Descriptor, limit int64) ([]byte, error) {
	if d.Size > limit {
		return nil, fmt.Errorf("layer %s: %w: %d bytes, more than %d", d.Digest, ErrTooLarge, d.Size, limit)
	}
	layer, err := puller.Layer(withLimit(ctx, limit), i.ref.Context().Digest(d.Digest.String()))
	if err != nil {
		return nil, registryError(err)
	}
	r, err := layer.Compressed()
	if err != nil {
		return nil, registryError(err)
	}
	defer func() { _ = r.Close() }() // read as far as it is wanted
	data, err := readAll(r, limit)
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", d.Digest, err)
	}
	return data, nil
}

// registryError is an error of a request to a registry as it may be shown.
func registryError(err error) error {
	var refused *transport.Error
	if errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("%w: %w", ErrLogin, err)
	}
	return withoutQuery(err)
}
