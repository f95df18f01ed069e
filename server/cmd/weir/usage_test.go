package main

import (
	"bytes"
	"strings"
	"testing"
)

// What is misspelt is said, with what was meant where that can be told.
func TestUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string // of the error, or of what is printed
		fine bool
	}{
		{"command", []string{"polcy"}, "Did you mean this?\n\tpolicy", false},
		{"subcommand", []string{"policy", "lnt"}, `unknown command "lnt" for "weir policy"; did you mean lint?`, false},
		{"subcommand of module", []string{"module", "rum"}, `unknown command "rum" for "weir module"; did you mean run?`, false},
		{"no subcommand", []string{"policy", "zzzzzz"}, `unknown command "zzzzzz" for "weir policy"`, false},
		{"help", []string{"help", "serv"}, "Did you mean this?\n\tserve", false},
		{"help of a subcommand", []string{"help", "policy", "lnt"}, `unknown command "lnt" for "weir policy"; did you mean lint?`, false},
		{"help of a command", []string{"help", "policy", "lint"}, "weir policy lint", true},
		{"help alone", []string{"help"}, "Available Commands:", true},
		{"shell", []string{"completion", "bassh"}, `unknown command "bassh" for "weir completion"; did you mean bash?`, false},
		{"shells", []string{"completion"}, "fish", true},
		{"completion of help", []string{"__complete", "help", "po"}, "policy", true},
		{"flag", []string{"serve", "--polcy-dir", "x"}, "unknown flag: --polcy-dir; did you mean --policy-dir?", false},
		{"flag of another program", []string{"serve", "--leader-elect"}, "unknown flag: --leader-elect; see `weir serve --help`", false},
		{"shorthand", []string{"policy", "lint", "-z"}, "unknown shorthand flag: 'z' in -z; see `weir policy lint --help`", false},
		{"value", []string{"serve", "--secure-port", "abc"}, "must be an integer; see `weir serve --help`", false},
		{"version", []string{"version"}, "Kubernetes API v1.", true},
		{"version as a flag", []string{"--version"}, "Kubernetes API v1.", true},
		{"group", []string{"policy"}, "Available Commands:", true},
		{"exit codes", []string{"--help"}, "It exits with 0", true},
		{"completion of a format", []string{"__complete", "policy", "lint", "-o", ""}, "text\njson", true},
		{"completion of an engine", []string{"__complete", "policy", "test", "--engine", ""}, "cel\nrego\nwasm", true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			root := rootCommand()
			var out bytes.Buffer
			root.SetOut(&out)
			root.SetErr(&out)
			root.SetArgs(tc.args)
			err := root.ExecuteContext(t.Context())
			got := out.String()
			if err != nil {
				got = err.Error()
			}
			if (err == nil) != tc.fine || !strings.Contains(got, tc.want) {
				t.Errorf("error %v, printed %s, want %s", err, out.String(), tc.want)
			}
		})
	}
}
