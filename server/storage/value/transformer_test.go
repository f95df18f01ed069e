package value_test

import (
	"fmt"
	"testing"

	"weir.dev/weir/server/storage/value"
)

func TestIdentity(t *testing.T) {
	data := []byte("x")
	stored, err := value.Identity{}.TransformToStorage(t.Context(), data, value.Key("/registry/a"))
	if err != nil || string(stored) != "x" {
		t.Errorf("got %q, %v", stored, err)
	}
	read, stale, err := value.Identity{}.TransformFromStorage(t.Context(), stored, value.Key("/registry/a"))
	if err != nil || stale || string(read) != "x" {
		t.Errorf("got %q, stale %t, %v", read, stale, err)
	}
}

// A ciphertext is bound to the key of its row.
func ExampleKey() {
	var row value.Context = value.Key("/registry/secrets/default/a")
	fmt.Printf("%s\n", row.AuthenticatedData())
	// Output: /registry/secrets/default/a
}
