package source_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"weir.dev/weir/host/source"
)

func TestCheckImage(t *testing.T) {
	const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	tests := []struct {
		name, image string
		plain       bool
		want        string
	}{
		{"a tag", "registry.example/a/b:v1", false, ""},
		{"a digest", "registry.example/a/b@" + digest, false, ""},
		{"both", "registry.example/a/b:v1@" + digest, false, ""},
		{"a port", "localhost:5000/b:v1", true, ""},
		{"loopback v6", "[::1]:5000/b:v1", true, ""},
		{"no registry", "a/b:v1", false, `image "a/b:v1" names no registry: it is REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST`},
		{"one word", "b", false, `image "b" names no registry: it is REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST`},
		{"no tag", "registry.example/b", false, `could not parse reference: registry.example/b`},
		{"another hash", "registry.example/b@sha512:" + strings.Repeat("a", 128), false, `is not sha256: and 64 hexadecimal digits`},
		{"plain http", "registry.example/b:v1", true, `image "registry.example/b:v1": plain http is for loopback only`},
		{"plain http in a private network", "10.0.0.1/b:v1", true, `plain http is for loopback only`},
		{"an address", "https://registry.example/b:v1", false, `image "https://registry.example/b:v1"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := source.CheckImage(tc.image, tc.plain)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestImage(t *testing.T) {
	const limit = 200 << 10
	r := plainRegistry(t)
	module := wasm("image")
	files := archive(t, "README.md", "text", "dir/plugin.wasm", string(module))
	tests := []struct {
		name  string
		image v1.Image
		want  string
	}{
		{"wasm", layers(t, layer(module, source.MediaTypeWasm)), ""},
		{"a content layer", layers(t, layer(module, source.MediaTypeContentLayer)), ""},
		{"a module layer", layers(t, layer(module, source.MediaTypeModuleLayer)), ""},
		{"wasm that is compressed", layers(t, layer(gz(t, module), source.MediaTypeWasm)), ""},
		{"a module beside others", layers(t, layer([]byte("{}"), "application/json"), layer(module, source.MediaTypeWasm)), ""},
		{"a tar", layers(t, layer(gz(t, files), types.OCILayer)), ""},
		{"docker's tar", layers(t, layer(gz(t, files), types.DockerLayer)), ""},
		{"a tar that is not compressed", layers(t, layer(files, types.OCIUncompressedLayer)), ""},
		{"no layer", layers(t), "manifest: there is no layer"},
		{"two modules", layers(t, layer(module, source.MediaTypeWasm), layer(wasm("2"), source.MediaTypeWasm)),
			"manifest: one layer of application/wasm, or of a tar with one module, is wanted, and there are application/wasm, application/wasm"},
		{"two modules in a tar", layers(t, layer(archive(t, "a.wasm", "a", "b.wasm", "b"), types.OCIUncompressedLayer)), "tar: both a.wasm and b.wasm are modules, one is wanted"},
		{"a tar without one", layers(t, layer(archive(t, "a", "a"), types.OCIUncompressedLayer)), "tar: no file *.wasm is in it"},
		{"not a tar", layers(t, layer(bytes.Repeat([]byte("x"), 1024), types.OCIUncompressedLayer)), "tar: archive/tar: invalid tar header"},
		{"something else", layers(t, layer(module, "text/plain")), "and there are text/plain"},
		{"too large", layers(t, layer(make([]byte, limit+1), source.MediaTypeWasm)), "too large: 204801 bytes, more than 204800"},
		{"a bomb", layers(t, layer(gz(t, make([]byte, 32<<20)), source.MediaTypeWasm)), "gzip: unpacked: too large: more than 204800 bytes"},
		{"a bomb in a tar", layers(t, layer(gz(t, archive(t, "a.wasm", string(make([]byte, 32<<20)))), types.OCILayer)), "tar: a.wasm: too large"},
		{"a bomb beside a module", layers(t, layer(gz(t, archive(t, "a", string(make([]byte, 32<<20)), "a.wasm", "x")), types.OCILayer)), "tar: too large"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ref := r.host + "/" + strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(tc.name)) + ":v1"
			digest := writeImage(t, ref, tc.image)
			image, err := client(t, source.Config{MaxBytes: limit}).Image(ref, source.ImageOptions{PlainHTTP: true})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := image.Resolve(t.Context()); err != nil || got != digest {
				t.Errorf("resolved to %s, %v, want %s", got, err, digest)
			}
			a, err := image.Fetch(t.Context())
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v, want %q", err, tc.want)
				}
				if strings.Contains(tc.want, "too large") != errors.Is(err, source.ErrTooLarge) {
					t.Errorf("%v is ErrTooLarge: %v", err, errors.Is(err, source.ErrTooLarge))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Module, module) || a.Digest != source.Digest(module) || a.ImageDigest() != digest {
				t.Errorf("got %q, %s, %s", a.Module, a.Digest, a.Image)
			}
			pinned, err := client(t, source.Config{}).Image(a.Image, source.ImageOptions{PlainHTTP: true})
			if err != nil {
				t.Fatal(err)
			}
			if again, err := pinned.Fetch(t.Context()); err != nil || again.Digest != a.Digest {
				t.Errorf("by %s: %v", a.Image, err)
			}
		})
	}
}

func TestImageIndex(t *testing.T) {
	r := plainRegistry(t)
	module := wasm("index")
	good := layers(t, layer(module, source.MediaTypeWasm))
	other := layers(t, layer(wasm("x"), source.MediaTypeWasm))
	on := func(image v1.Image, arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "wasip1", Architecture: arch}}}
	}
	tests := []struct {
		name  string
		index v1.ImageIndex
		want  string
	}{
		{"the only one", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: good}), ""},
		{"by its platform", mutate.AppendManifests(empty.Index, on(other, "amd64"), on(good, "wasm")), ""},
		{"none", empty.Index, "index: 0 manifests could be meant"},
		{"several", mutate.AppendManifests(empty.Index, on(other, "wasm"), on(good, "wasm")), "index: 2 manifests could be meant"},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			ref := r.host + "/index:v" + string(rune('1'+i))
			parsed, err := name.ParseReference(ref)
			if err != nil {
				t.Fatal(err)
			}
			if err := remote.WriteIndex(parsed, tc.index); err != nil {
				t.Fatal(err)
			}
			image, err := client(t, source.Config{}).Image(ref, source.ImageOptions{PlainHTTP: true})
			if err != nil {
				t.Fatal(err)
			}
			a, err := image.Fetch(t.Context())
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil || a.Digest != source.Digest(module) || len(a.Signable()) != 2 {
				t.Errorf("got %+v, %v", a, err)
			}
		})
	}
}

func TestPush(t *testing.T) {
	r := privateRegistry(t)
	c := trusting(t, r.Server, source.Config{})
	logins, err := source.ParseDockerConfig(dockerConfig(r.host))
	if err != nil {
		t.Fatal(err)
	}
	ref, module := r.host+"/team/quota:v1", wasm("pushed")
	image, err := c.Image(ref, source.ImageOptions{Credentials: logins})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "MANIFEST_UNKNOWN") && !strings.Contains(err.Error(), "NAME_UNKNOWN") {
		t.Errorf("before the push: %v", err)
	}
	pinned, err := image.Push(t.Context(), module, "quota.wasm", map[string]string{"a": "b"})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := image.Push(t.Context(), module, "quota.wasm", map[string]string{"a": "b"}); err != nil || again != pinned {
		t.Errorf("pushed again: %s, %v, want %s", again, err, pinned)
	}
	a, err := image.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.Image != pinned || a.Digest != source.Digest(module) {
		t.Errorf("fetched %s %s, want %s", a.Image, a.Digest, pinned)
	}
	if _, err := image.Push(t.Context(), []byte("text"), "", nil); err == nil || err.Error() != "not a WebAssembly module" {
		t.Errorf("a text was pushed: %v", err)
	}
	byDigest, err := c.Image(pinned, source.ImageOptions{Credentials: logins})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := byDigest.Push(t.Context(), module, "", nil); err == nil || !strings.Contains(err.Error(), "push to a tag") {
		t.Errorf("pushed to a digest: %v", err)
	}
	for name, credentials := range map[string]source.Credentials{"without credentials": nil, "with those of another": otherLogins(t)} {
		stranger, err := c.Image(ref, source.ImageOptions{Credentials: credentials})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stranger.Fetch(t.Context())
		if err == nil || !errors.Is(err, source.ErrLogin) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := stranger.Resolve(t.Context()); err == nil {
			t.Errorf("%s: resolved", name)
		}
	}
}

func otherLogins(t *testing.T) source.Credentials {
	t.Helper()
	logins, err := source.ParseDockerConfig(dockerConfig("registry.example"))
	if err != nil {
		t.Fatal(err)
	}
	return logins
}

// A registry on loopback is spoken to by https unless plain http is asked for.
func TestImagePlainHTTPIsAskedFor(t *testing.T) {
	r := plainRegistry(t)
	writeImage(t, r.host+"/a:v1", layers(t, layer(wasm("a"), source.MediaTypeWasm)))
	image, err := client(t, source.Config{}).Image(r.host+"/a:v1", source.ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		t.Errorf("error %v", err)
	}
	r.Close()
	image, err = client(t, source.Config{}).Image(r.host+"/a:v1", source.ImageOptions{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("of a registry that is away: %v", err)
	}
}
