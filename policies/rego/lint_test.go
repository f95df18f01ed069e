package rego_test

import (
	"fmt"
	"slices"
	"testing"

	"weir.dev/weir/policies/rego"
)

func TestLint(t *testing.T) {
	engine, err := rego.New(rego.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const noMember = ": there are namespaceObject, object, oldObject, params, request, settings"
	tests := []struct {
		name, text, entrypoint string
		want                   []string
	}{
		{name: "clean", text: "package p\n\ndeny contains \"a\" if {\n\tinput.object.x\n\tsome name in [\"object\"]\n\tinput[name].y\n\tinput.settings.z\n}\n\ndefault allow := false\n\nallow if input.request.x\n"},
		{name: "a member that there is not", text: "package p\n\ndeny contains \"a\" if input.objct.x\n\ndeny contains \"b\" if input[\"review\"]\n",
			want: []string{"3:28 input has no member \"objct\"" + noMember, "5:28 input has no member \"review\"" + noMember}},
		{name: "an import of one", text: "package p\n\nimport input.review as r\n\ndeny contains \"a\" if r.x\n", want: []string{"3:14 input has no member \"review\"" + noMember}},
		{name: "a boolean", text: "package p\n\ndeny if input.object.x\n\nwarn := true if input.object.x\n", want: []string{
			`3:1 deny is a boolean, and must be a set of messages: write deny contains "…" if { … }`,
			`5:1 warn is a boolean, and must be a set of messages: write warn contains "…" if { … }`}},
		{name: "a boolean of another package", text: "package p\n\ndeny if input.object.x\n\nresult := {\"allow\": true} if not deny\n", entrypoint: "p/result"},
		{name: "a set, an object and a function", text: "package p\n\ndeny := {\"a\" | input.object.x}\n\nwarn[\"k\"] := \"a\" if input.object.x\n\nviolation(x) if x\n"},
		{name: "what does not parse", text: "package p\n\ndeny {"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, i := range engine.Lint(&rego.Source{Modules: []rego.Module{{Text: tc.text}}, Entrypoint: tc.entrypoint}) {
				got = append(got, fmt.Sprintf("%d:%d %s", i.Line, i.Column, i.Message))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
