package server

import (
	"testing"

	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// Rules are compiled at the first write of a kind, so a test compiles all of them.
func TestRulesCompile(t *testing.T) {
	set, err := resources.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	compiled := 0
	for _, d := range set.Definitions() {
		for _, subresource := range []string{"", rest.SubresourceStatus} {
			layer := newRulesLayer(engine, d, subresource)
			if layer == nil {
				continue
			}
			compiled++
			if _, err := layer.(rulesLayer).load(); err != nil {
				t.Errorf("%s %q: %v", d.GroupResource(), subresource, err)
			}
		}
	}
	if compiled == 0 {
		t.Error("no kind has rules")
	}
}
