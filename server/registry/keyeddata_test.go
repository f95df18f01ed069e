package registry_test

import (
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/registry"
	"weir.dev/weir/server/rest"
)

// TestConfigMapLayer: keys, and what is immutable.
func TestConfigMapLayer(t *testing.T) {
	tests := []struct{ name, layer, old, obj, want string }{
		{"good", "", ``, `{"data":{"a.b":"c"},"binaryData":{"d":"AA=="}}`, ""},
		{"keys", "", ``, `{"data":{"..":"c","a b":"d"}}`, "data[..] data[a b]"},
		{"twice", "", ``, `{"data":{"a":"c"},"binaryData":{"a":"AA=="}}`, "binaryData[a]"},
		{"changed", "", `{"data":{"a":"b"}}`, `{"data":{"a":"c"}}`, ""},
		{"made immutable", "", `{"data":{"a":"b"}}`, `{"data":{"a":"c"},"immutable":true}`, ""},
		{"immutable stays", "", `{"data":{"a":"b"},"immutable":true}`, `{"data":{"a":"b"}}`, "immutable"},
		{"immutable data", "", `{"data":{"a":"b"},"immutable":true}`, `{"data":{"a":"c"},"binaryData":{"d":"AA=="},"immutable":true}`, "data binaryData"},
		{"immutable and empty", "", `{"data":{},"immutable":true}`, `{"immutable":true}`, ""},
		{"labels of an immutable one", "", `{"data":{"a":"b"},"immutable":true}`, `{"data":{"a":"b"},"immutable":true,"metadata":{"labels":{"x":"y"}}}`, ""},
		{"secret", "secret", ``, `{"data":{"a":"AA==","b/c":"AA=="}}`, "data[b/c]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			parse := func(text string) *document.Document {
				d, err := document.Parse([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			var layer rest.Layer = registry.ConfigMapLayer{}
			if tc.layer != "" {
				layer = registry.SecretLayer{}
			}
			errs, err := layer.Validate(t.Context(), parse(tc.obj))
			if tc.old != "" {
				errs, err = layer.ValidateUpdate(t.Context(), parse(tc.obj), parse(tc.old))
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, e := range errs {
				if i > 0 {
					got += " "
				}
				got += e.Field
			}
			if got != tc.want {
				t.Errorf("got %q (%v), want %q", got, errs, tc.want)
			}
		})
	}
}
