package bootstrap

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

var rewrite = flag.Bool("rewrite", false, "write objects.json anew")

// TestCompiled keeps objects.json what the YAML files say.
func TestCompiled(t *testing.T) {
	names, err := filepath.Glob("*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no YAML files: %v", err)
	}
	var roles, bindings [][]byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, item := range parse(t, string(raw)).Get("items").Elements() {
			obj := item.Document()
			if obj.Get("rules").Kind() == document.Null { // of an aggregated role
				if obj, err = obj.Edit().Delete("rules").Document(); err != nil {
					t.Fatal(err)
				}
			}
			if obj.Get("roleRef").Exists() {
				bindings = append(bindings, obj.Bytes())
			} else {
				roles = append(roles, obj.Bytes())
			}
		}
	}
	want := append([]byte("[\n"), bytes.Join(append(roles, bindings...), []byte(",\n"))...)
	want = append(want, "\n]\n"...)
	if *rewrite {
		if err := os.WriteFile("objects.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(want, objects) {
		t.Error("objects.json is not what the YAML files say: run go generate ./server/auth/bootstrap")
	}
}
