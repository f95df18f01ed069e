package source_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"

	"weir.dev/weir/host/source"
)

// A module goes to a registry and comes back, and is compared with the digest and the key that are wanted.
func Example() {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	client, err := source.NewClient(source.Config{})
	if err != nil {
		panic(err)
	}
	defer client.Close()

	ctx, module := context.Background(), []byte("\x00asm\x01\x00\x00\x00")
	image, err := client.Image(strings.TrimPrefix(server.URL, "http://")+"/team/empty:v1", source.ImageOptions{PlainHTTP: true})
	if err != nil {
		panic(err)
	}
	if _, err := image.Push(ctx, module, "empty.wasm", nil); err != nil {
		panic(err)
	}
	artefact, err := image.Fetch(ctx)
	if err != nil {
		panic(err)
	}
	_, manifest, _ := strings.Cut(artefact.Image, "@")
	fmt.Println("manifest", manifest)
	fmt.Println("module  ", artefact.Digest)

	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		panic(err)
	}
	keys, err := source.ParsePublicKeys(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		panic(err)
	}
	want := &source.Expectation{Digest: artefact.Digest, Keys: keys, Signature: ed25519.Sign(private, module)}
	fmt.Println("signed:", client.Verify(ctx, image, artefact, want) == nil)
	want.Signature = ed25519.Sign(private, []byte("something else"))
	fmt.Println("signed:", !errors.Is(client.Verify(ctx, image, artefact, want), source.ErrSignature))
	// Output:
	// manifest sha256:26f4f12e8dfb7e318e220b41b2f35a98ecf5ef5b1a03f3bf2a1f7e22d9112c9f
	// module   sha256:93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476
	// signed: true
	// signed: false
}
