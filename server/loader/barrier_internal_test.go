package loader

import (
	"errors"
	"strings"
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// Who writes in a namespace is told that the write stands, and not what is stored in others.
func TestStoredNotInForce(t *testing.T) {
	why := &rest.UnreadableError{Err: errors.New("/registry/roles/secret/name cannot be read")}
	for text, names := range map[string]bool{
		`{"metadata":{"name":"a"}}`:                   true,
		`{"metadata":{"name":"a","namespace":"one"}}`: false,
	} {
		obj, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := stored(obj, why).Error()
		if !strings.Contains(got, `"a" is stored, but not in force`) || strings.Contains(got, "secret") != names {
			t.Errorf("%s: %s", text, got)
		}
	}
}
