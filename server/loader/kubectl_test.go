package loader_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/host"
	"weir.dev/weir/server/servertest"
)

// An operator sees with kubectl alone what is in force and what is wrong.
func TestKubectl(t *testing.T) {
	path := servertest.Kubectl(t)
	f := start(t)
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), path, append([]string{"--kubeconfig", f.Kubeconfig()}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return regexp.MustCompile(` +`).ReplaceAllString(string(out), " ")
	}
	wants := func(got string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("there is no %q in\n%s", text, got)
			}
		}
	}
	digest := host.Digest(stamp("v001"))
	f.put(t, modules, module("stamp", inline(stamp("v001"))))
	f.put(t, strategies, onConfigMaps(calls("stamp")))
	wants(kubectl("wait", "--for=condition=Ready", "--timeout=30s", "module/stamp", "strategy/configmaps"),
		"module.weir.dev/stamp condition met", "strategy.weir.dev/configmaps condition met")
	wants(kubectl("get", "modules"), "NAME READY REASON AGE\n", "stamp True InForce ")
	wants(kubectl("get", "modules", "-o", "wide"), "NAME READY REASON MESSAGE DIGEST HOOKS AGE\n", digest)
	wants(kubectl("get", "strategies", "-o", "wide"), "NAME READY REASON LAYERS MESSAGE IN-FORCE AGE\n", "configmaps True InForce layer-0 1 ")

	f.put(t, modules, module("stamp", inline([]byte("no module"))))
	wants(kubectl("wait", "--for=condition=Ready=False", "--timeout=30s", "module/stamp"), "condition met")
	f.event(t, "Module", "stamp", "not a wasm module")
	wants(kubectl("get", "modules", "-o", "wide"), "stamp False LastKnownGood compile: module[stamp]: refused: not a wasm module")
	wants(kubectl("describe", "module", "stamp"), "Last Error: compile: module[stamp]: refused: not a wasm module",
		"Events:\n", "Warning Refused", "weir-loader compile: module[stamp]: refused: not a wasm module")
	wants(kubectl("events", "--for", "module/stamp"), "Warning Refused Module/stamp compile: ")
	// A wait after a change does not see the conditions of the generation before.
	f.put(t, modules, module("stamp", inline(stamp("v002"))))
	wants(kubectl("wait", "--for=condition=Ready", "--timeout=30s", "module/stamp"), "condition met")
	if v := f.serves(t); v != "v002" {
		t.Errorf("%q serves after the wait, want v002", v)
	}
}
