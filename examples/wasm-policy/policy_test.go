package main

import (
	"os"
	"path/filepath"
	"testing"

	"weir.dev/weir/host"
	"weir.dev/weir/sdk/cases"
	"weir.dev/weir/sdk/go/build"
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

// TestCases runs what weir module test runs.
func TestCases(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ingress-hosts.wasm")
	guest(t, file)
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cases.Test(t, os.DirFS("."), "cases", wasm, host.ModuleConfig{Name: "ingress-hosts"})
}

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	modules, err := env.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	guest(t, filepath.Join(modules, "ingress-hosts.wasm"))
	create := func(file string, says ...string) servertest.Typed {
		return servertest.Typed{Command: "kubectl create -f " + file, Args: []string{"create", "-f", file}, Says: says}
	}
	refused := func(file, why string) servertest.Typed {
		c := create(file, why)
		c.Fails = true
		return c
	}
	patch := func(kind, name, patch string) servertest.Typed {
		return servertest.Typed{Command: "kubectl patch " + kind + " " + name + " --type=merge -p '" + patch + "'",
			Args: []string{"patch", kind, name, "--type=merge", "-p", patch}}
	}
	wait := func(condition, object string) servertest.Typed {
		return servertest.Typed{Command: "kubectl wait --for=condition=" + condition + " " + object + " --timeout=120s",
			Args: []string{"wait", "--for=condition=" + condition, object, "--timeout=120s"}}
	}
	get := func(kind, name, path, says string) servertest.Typed {
		return servertest.Typed{Command: "kubectl get " + kind + " " + name + " -o jsonpath='{" + path + "}'",
			Args: []string{"get", kind, name, "-o", "jsonpath={" + path + "}"}, Says: []string{says}}
	}
	servertest.TypeReadme(t, env, []servertest.Typed{
		{Command: "kubectl apply -f policy.yaml -f domain.yaml", Args: []string{"apply", "-f", "policy.yaml", "-f", "domain.yaml"}},
		refused("good.yaml", `no Module "ingress-hosts" exists`),
		{Command: "kubectl apply -f module.yaml", Args: []string{"apply", "-f", "module.yaml"}},
		wait("Ready", "module/ingress-hosts"),
		create("good.yaml", "created"),
		get("ingress", "till", ".spec.ingressClassName", "river"),
		refused("bad.yaml", `spec.rules[0].host: Invalid value: "till.example.org": must be below shop.example.com`),
		patch("configmap", "ingress-domain", `{"data":{"domain":"example.org"}}`),
		patch("policy", "ingress-hosts", `{"spec":{"wasm":{"settings":{"class":"canal"}}}}`),
		wait("Ready", "policy/ingress-hosts"),
		create("bad.yaml", "created"),
		get("ingress", "elsewhere", ".spec.ingressClassName", "canal"),
		patch("policy", "ingress-hosts", `{"spec":{"wasm":{"settings":{"class":"Canal"}}}}`),
		wait("Ready=false", "policy/ingress-hosts"),
		get("policy", "ingress-hosts", ".status.lastError", "settings refused: class"),
	})
}
