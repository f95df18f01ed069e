package source_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"weir.dev/weir/host/source"
)

// wasm is a module, as far as a source cares.
func wasm(text string) []byte { return []byte("\x00asm\x01\x00\x00\x00" + text) }

func client(t testing.TB, cfg source.Config) *source.Client {
	t.Helper()
	c, err := source.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// trusting returns a client that trusts the certificate of a server.
func trusting(t testing.TB, s *httptest.Server, cfg source.Config) *source.Client {
	t.Helper()
	cfg.Roots = x509.NewCertPool()
	cfg.Roots.AddCert(s.Certificate())
	return client(t, cfg)
}

// quiet drops what a test server logs of connections that a client gives up.
func quiet(s *httptest.Server) *httptest.Server {
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

// store is a registry on loopback with its host.
type store struct {
	host string
	*httptest.Server
}

func plainRegistry(t testing.TB) store {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return store{strings.TrimPrefix(s.URL, "http://"), s}
}

const user, password = "robot", "pa:ss word"

// privateRegistry is one with TLS that asks for a password.
func privateRegistry(t testing.TB) store {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := quiet(httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})))
	s.StartTLS()
	t.Cleanup(s.Close)
	return store{strings.TrimPrefix(s.URL, "https://"), s}
}

func dockerConfig(host string) []byte {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return fmt.Appendf(nil, `{"auths":{"https://%s":{"auth":%q},"other.example":{"username":"x","password":"y"}}}`, host, auth)
}

// writeImage pushes an image made by the library.
func writeImage(t testing.TB, ref string, image v1.Image) string {
	t.Helper()
	parsed, err := name.ParseReference(ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func layers(t testing.TB, all ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), all...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func layer(data []byte, mediaType types.MediaType) v1.Layer { return static.NewLayer(data, mediaType) }

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// archive is a tar of name, content, name, content…
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o600, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// key signs in the ways that cosign does.
type key struct {
	signer crypto.Signer
	public []byte // PEM
}

func newKey(t testing.TB, kind string) key {
	t.Helper()
	var signer crypto.Signer
	var err error
	switch kind {
	case "P-256":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "P-384":
		signer, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "RSA":
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return key{signer, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})}
}

// sign returns a signature in base64.
func (k key) sign(t testing.TB, data []byte) string {
	t.Helper()
	options, message := crypto.SignerOpts(crypto.SHA256), data
	if _, ok := k.signer.(ed25519.PrivateKey); ok {
		options = crypto.Hash(0)
	} else {
		sum := sha256.Sum256(data)
		message = sum[:]
	}
	signature, err := k.signer.Sign(rand.Reader, message, options)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// raw is a signature as it is.
func (k key) raw(t testing.TB, data []byte) []byte {
	t.Helper()
	signature, err := base64.StdEncoding.DecodeString(k.sign(t, data))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func (k key) keys(t testing.TB) *source.PublicKeys {
	t.Helper()
	keys, err := source.ParsePublicKeys(k.public)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// payload is what cosign signs of a manifest.
func payload(repository, digest string) []byte {
	text, _ := json.Marshal(map[string]any{"optional": nil, "critical": map[string]any{
		"identity": map[string]string{"docker-reference": repository},
		"image":    map[string]string{"docker-manifest-digest": digest}, "type": "cosign container image signature"}})
	return text
}

// signature is an image with signatures, as cosign pushes it: what was signed, and the signature, in turn.
func signature(t testing.TB, repository, digest string, signed ...string) {
	t.Helper()
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for i := 0; i < len(signed); i += 2 {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:       layer([]byte(signed[i]), "application/vnd.dev.cosign.simplesigning.v1+json"),
			Annotations: map[string]string{"dev.cosignproject.cosign/signature": signed[i+1]}})
		if err != nil {
			t.Fatal(err)
		}
	}
	writeImage(t, repository+":"+strings.Replace(digest, ":", "-", 1)+".sig", image)
}

var _ authn.Keychain = source.Credentials(nil)
