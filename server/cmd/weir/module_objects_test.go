package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestModuleLooksUp: what a module looks up is in files, what it may ask is said, and the trace and inspect tell of it.
func TestModuleLooksUp(t *testing.T) {
	const example = "../../../examples/lookup"
	file := filepath.Join(t.TempDir(), "limits.wasm")
	if _, code, err := weir(t, "module", "build", example, "-o", file); err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	out, _, err := weir(t, "module", "inspect", file)
	for _, want := range []string{"lookup:configmaps, lookup:deployments.apps, authorize", `spec.capabilities: ["lookup:configmaps", "lookup:deployments.apps", "authorize"]`} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("inspect does not print %q: %v\n%s", want, err, out)
		}
	}
	in := func(name string) string { return filepath.Join(example, name) }
	args := []string{
		"module", "run", file, "--cache-dir", t.TempDir(), "--hook", "validateCreate", "--object", in("too-many.yaml"),
		"--objects", in("limits.yaml"), "--objects", in("web.yaml"), "--trace",
	}
	run := func(args []string) (stdout, stderr string, err error) {
		root := rootCommand()
		var out, logs bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&logs)
		root.SetArgs(args)
		err = root.ExecuteContext(t.Context())
		return out.String(), logs.String(), err
	}
	stdout, stderr, _ := run(args)
	if !strings.Contains(stdout, "6 replicas in the namespace with this, at most 5") {
		t.Errorf("verdict:\n%s", stdout)
	}
	for _, want := range []string{
		`trace     lookup {"fields":["data.replicas"],"name":"limits","namespace":"default","resource":"configmaps"} = lookup:configmaps default/limits: 1 item  (fuel `,
		`= lookup:deployments.apps default/*: 1 item at resourceVersion 1  (fuel `,
		`trace     authorize {"name":"limits","namespace":"default","resource":"configmaps","verb":"exceed"} = not allowed  (fuel `,
		`trace     query object metadata.name = "api"  (fuel `,
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("the trace has no %q:\n%s", want, stderr)
		}
	}
	stdout, stderr, err = run(append(args, "--allow", "exceed:configmaps"))
	if err != nil || !strings.Contains(stdout, "pass") || !strings.Contains(stderr, "= allowed") {
		t.Errorf("who may exceed: %v\n%s", err, stdout)
	}
	for _, bad := range [][]string{{"--allow", "exceed"}, {"--objects", in("none.yaml")}, {"--objects", in("cases")}} {
		if _, _, err := run(append(args, bad...)); err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
