package encryption_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "encryption.yaml")
	if err := os.WriteFile(file, []byte(`
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox: {keys: [{name: key1, secret: c2VjcmV0IGlzIHNlY3VyZSwgb3IgaXMgaXQ/IGhtbSE=}]}
  - identity: {}
`), 0o600); err != nil {
		panic(err)
	}
	ctx := context.Background()
	e, err := encryption.Open(ctx, encryption.Config{File: file})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	secrets := e.For(schema.GroupResource{Resource: "secrets"})
	const key = value.Key("/registry/secrets/default/a")
	stored, err := secrets.TransformToStorage(ctx, []byte(`{"kind":"Secret"}`), key)
	if err != nil {
		panic(err)
	}
	data, stale, err := secrets.TransformFromStorage(ctx, stored, key)
	fmt.Printf("%s…\n%s, stale %t, %v\n", stored[:26], data, stale, err)
	data, stale, err = secrets.TransformFromStorage(ctx, []byte(`{"kind":"Secret"}`), key)
	fmt.Printf("%s, stale %t, %v\n", data, stale, err)
	// Output:
	// k8s:enc:secretbox:v1:key1:…
	// {"kind":"Secret"}, stale false, <nil>
	// {"kind":"Secret"}, stale true, <nil>
}
