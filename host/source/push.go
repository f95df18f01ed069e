package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// mediaTypeConfig is that of the configuration of a Wasm OCI artefact
// (tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact).
const mediaTypeConfig = "application/vnd.wasm.config.v0+json"

// wasmMagic begins a module.
const wasmMagic = "\x00asm"

// AnnotationTitle is the name of the file that a layer was.
const AnnotationTitle = "org.opencontainers.image.title"

// Push writes a module to the registry, under the image's tag, as an artefact with one layer of MediaTypeWasm. title
// names its file; annotations are those of the manifest. It returns the reference that is pinned. The same module with
// the same annotations always gives the same digest. A tag is replaced.
func (i *Image) Push(ctx context.Context, module []byte, title string, annotations map[string]string) (string, error) {
	ctx, cancel := i.client.timeout(ctx)
	defer cancel()
	if _, ok := i.ref.(name.Tag); !ok {
		return "", fmt.Errorf("image %q: push to a tag: the digest comes of what is pushed", i.ref)
	}
	if !bytes.HasPrefix(module, []byte(wasmMagic)) {
		return "", errors.New("not a WebAssembly module")
	}
	if int64(len(module)) > i.client.cfg.MaxBytes {
		return "", fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, len(module), i.client.cfg.MaxBytes)
	}
	core, err := newWasmImage(module, title, annotations)
	if err != nil {
		return "", err
	}
	image, err := partial.CompressedToImage(core)
	if err != nil {
		return "", err
	}
	pusher, err := remote.NewPusher(i.remoteOptions()...)
	if err != nil {
		return "", err
	}
	if err := pusher.Push(ctx, i.ref, image); err != nil {
		return "", registryError(err)
	}
	return i.ref.Context().Digest(Digest(core.manifest)).String(), nil
}

// wasmImage implements partial.CompressedImageCore.
type wasmImage struct {
	config, manifest []byte
	layer            v1.Layer
	digest           v1.Hash // of the layer
}

func newWasmImage(module []byte, title string, annotations map[string]string) (*wasmImage, error) {
	w := &wasmImage{layer: static.NewLayer(module, MediaTypeWasm)}
	var err error
	if w.digest, err = w.layer.Digest(); err != nil {
		return nil, err
	}
	w.config, err = json.Marshal(map[string]any{"architecture": architectureWasm, "os": "wasip1", "layerDigests": []string{w.digest.String()}})
	if err != nil {
		return nil, err
	}
	configDigest, configSize, err := v1.SHA256(bytes.NewReader(w.config))
	if err != nil {
		return nil, err
	}
	layer := v1.Descriptor{MediaType: MediaTypeWasm, Size: int64(len(module)), Digest: w.digest}
	if title != "" {
		layer.Annotations = map[string]string{AnnotationTitle: title}
	}
	w.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config:      v1.Descriptor{MediaType: mediaTypeConfig, Size: configSize, Digest: configDigest},
		Layers:      []v1.Descriptor{layer},
		Annotations: annotations,
	})
	return w, err
}

// RawConfigFile implements partial.CompressedImageCore.
func (w *wasmImage) RawConfigFile() ([]byte, error) { return w.config, nil }

// MediaType implements partial.CompressedImageCore.
func (w *wasmImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest implements partial.CompressedImageCore.
func (w *wasmImage) RawManifest() ([]byte, error) { return w.manifest, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (w *wasmImage) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	switch h {
	case w.digest:
		return w.layer, nil
	}
	if config, err := partial.ConfigLayer(w); err == nil {
		if d, err := config.Digest(); err == nil && d == h {
			return config, nil
		}
	}
	return nil, fmt.Errorf("no layer %s", h)
}
