package storage_test

import (
	"fmt"

	"weir.dev/weir/server/storage"
)

// A row holds the object without its resourceVersion, which is the revision of the
// row's last write.
func ExampleJSONCodec() {
	codec := storage.JSONCodec{}
	stored, _ := codec.Encode([]byte(`{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"41"}}`))
	served, _ := codec.Decode(stored, 42)
	fmt.Println(string(stored))
	fmt.Println(string(served))
	// Output:
	// {"kind":"ConfigMap","metadata":{"name":"a"}}
	// {"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"42"}}
}
