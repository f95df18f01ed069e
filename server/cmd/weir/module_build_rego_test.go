package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildRego makes a module of each policy in Rego of the library, and runs one.
func TestBuildRego(t *testing.T) {
	files, err := filepath.Glob("../../../policies/library/*/policy.rego")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	dir := t.TempDir()
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		out, code, err := weir(t, "module", "build", file, "-o", filepath.Join(dir, name+".wasm"))
		if err != nil || code != 0 || !strings.Contains(out, "admitValidate") {
			t.Errorf("%s: code %d, %v\n%s", name, code, err, out)
		}
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	object := write("web.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 11}}")
	out, code, err := weir(t, "module", "run", filepath.Join(dir, "replicas.wasm"), "--hook", "admitValidate", "--operation", "CREATE",
		"--object", object, "--params", "../../../policies/library/replicas/params.yaml")
	if err != nil || code != 1 || !strings.Contains(out, "11 replicas are more than 10") {
		t.Errorf("code %d, %v\n%s", code, err, out)
	}
	tests := []struct{ name, text, want string }{
		{"a function that modules do not have", "package p\ndeny contains sprintf(\"%d\", [1])", "uses sprintf, which a module does not have"},
		{"a name that is not there", "package p\ndeny contains x", string(filepath.Separator) + "p.rego:2:15: var x is unsafe"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, code, err := weir(t, "module", "build", write("p.rego", tc.text), "-o", filepath.Join(dir, "p.wasm"))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "p.rego/p.rego") {
				t.Errorf("code %d, got %v, want %q", code, err, tc.want)
			}
		})
	}
}
