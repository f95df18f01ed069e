package main

import (
	"testing"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/weirtest"
)

// TestHooks runs hooks natively; `weir module test` runs the cases.
func TestHooks(t *testing.T) {
	const good = `{"metadata":{"labels":{"team":"river"}},"spec":{"replicas":3}}`
	tests := []struct {
		name, object, settings string
		want                   string
	}{
		{name: "a good one", object: good},
		{name: "settings", object: good, settings: `{"maxReplicas":2}`, want: "must be at most 2"},
		{name: "no team", object: `{"spec":{}}`, want: "every Deployment has one"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			res, err := weirtest.Run(weir.For[struct{}](&Guard{}), weirtest.Call{
				Op: abi.OpValidateCreate, Object: tc.object, Settings: tc.settings,
			})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, e := range res.Errors {
				got += e.Detail
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
