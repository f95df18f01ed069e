package main

import (
	"os"
	"path/filepath"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
	"weir.dev/weir/sdk/cases"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/build"
	"weir.dev/weir/sdk/go/weirtest"
	"weir.dev/weir/server/servertest"
)

// guest builds the module.
func guest(t *testing.T, file string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a module")
	}
	if err := build.Guest(t.Context(), build.Config{Dir: ".", Output: file}); err != nil {
		t.Fatal(err)
	}
}

// TestNative runs a hook without WebAssembly.
func TestNative(t *testing.T) {
	call := weirtest.Call{
		Op: abi.OpValidateCreate, Meta: abi.Meta{Namespace: "shop"},
		Object:  `{"metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":6}}`,
		Objects: []string{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"limits","namespace":"shop"},"data":{"replicas":"5"}}`},
	}
	for _, allowed := range []bool{false, true} {
		if allowed {
			call.Allowed = []weir.Access{{Verb: "exceed", Resource: "configmaps"}}
		}
		res, err := weirtest.Run(weir.For[Deployment](Strategy{}), call)
		if err != nil || (len(res.Errors) == 0) != allowed || (len(res.Warnings) == 1) != allowed {
			t.Errorf("allowed %v: %+v, %v", allowed, res, err)
		}
	}
}

// TestCases runs what weir module test runs.
func TestCases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replica-limits.wasm")
	guest(t, file)
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cases.Test(t, os.DirFS("."), "cases", wasm, host.ModuleConfig{Name: "replica-limits"})
}

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	modules, err := env.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	guest(t, filepath.Join(modules, "replica-limits.wasm"))
	kubectl := func(command string, args []string, says ...string) servertest.Typed {
		return servertest.Typed{Command: "kubectl " + command, Args: args, Says: says}
	}
	wait := func(condition string) servertest.Typed {
		return kubectl("wait --for=condition="+condition+" module/replica-limits --timeout=120s",
			[]string{"wait", "--for=condition=" + condition, "module/replica-limits", "--timeout=120s"})
	}
	apply := kubectl("apply -f module.yaml", []string{"apply", "-f", "module.yaml"})
	refused := kubectl("create -f too-many.yaml --as jane", []string{"create", "-f", "too-many.yaml", "--as", "jane"},
		"spec.replicas: Forbidden: 6 replicas in the namespace with this, at most 5 by the ConfigMap limits")
	refused.Fails = true
	scale := kubectl("scale deployment api --replicas=4", []string{"scale", "deployment", "api", "--replicas=4"}, "lookup of configmaps: capability not granted")
	scale.Fails = true
	servertest.TypeReadme(t, env, []servertest.Typed{
		kubectl("apply -f module-without.yaml", []string{"apply", "-f", "module-without.yaml"}),
		wait("Ready=false"),
		kubectl(`get module replica-limits -o jsonpath='{.status.conditions[?(@.type=="Ready")]}'`,
			[]string{"get", "module", "replica-limits", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")]}`},
			`"reason":"CapabilityNotGranted"`, `asks for \"lookup:configmaps\", \"lookup:deployments.apps\", \"authorize\", which are not granted`),
		kubectl("apply -f module.yaml -f limits.yaml -f jane.yaml",
			[]string{"apply", "-f", "module.yaml", "-f", "limits.yaml", "-f", "jane.yaml"}),
		wait("Ready"),
		kubectl("patch strategy deployments.apps --type json --patch-file layer.yaml",
			[]string{"patch", "strategy", "deployments.apps", "--type", "json", "--patch-file", "layer.yaml"}, "patched"),
		kubectl("create -f web.yaml --as jane", []string{"create", "-f", "web.yaml", "--as", "jane"}, "created"),
		refused,
		kubectl("create -f too-many.yaml --dry-run=server", []string{"create", "-f", "too-many.yaml", "--dry-run=server"},
			"Warning: 6 replicas in the namespace with this", "created"),
		kubectl(`patch configmap limits --type=merge -p '{"data":{"replicas":"6"}}'`,
			[]string{"patch", "configmap", "limits", "--type=merge", "-p", `{"data":{"replicas":"6"}}`}),
		kubectl("create -f too-many.yaml --as jane", []string{"create", "-f", "too-many.yaml", "--as", "jane"}, "created"),
		kubectl(`patch module replica-limits --type=merge -p '{"spec":{"capabilities":["authorize"]}}'`,
			[]string{"patch", "module", "replica-limits", "--type=merge", "-p", `{"spec":{"capabilities":["authorize"]}}`}),
		wait("Ready=false"),
		scale,
		apply,
		wait("Ready"),
	})
}
