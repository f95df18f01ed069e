package trust_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest/tools"
)

// TestReadme types what the README says and sees what it says.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "weir")
	if err := tools.BuildWeir(t.Context(), binary); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		command string
		code    int
		says    []string
	}{
		{"weir policy lint old new", 0, nil},
		{"weir policy test old new", 0, []string{"ok  \told\t", "6 cases", "ok  \tnew\t", "7 cases"}},
		{"weir policy bench new --run three", 0, []string{"replicas/three", "of CEL"}},
		{"weir policy replay requests.jsonl --policy new", 1, []string{"6 requests judged: 2 differ", "not judged: 1 about secrets",
			"CREATE deployments.apps default/api by weir-admin (uid 3f95b0ca-ec95-40a3-a515-93909e18d7ba, line 3)\n" +
				"  ValidatingAdmissionPolicy/replicas: allowed → denied\n    + one replica is none while a node is drained\n"}},
	}
	for _, tc := range tests {
		t.Run(tc.command, func(t *testing.T) {
			if !strings.Contains(string(text), "\n"+tc.command+"\n") {
				t.Error("the README does not have this command")
			}
			command := exec.CommandContext(t.Context(), binary, strings.Fields(tc.command)[1:]...)
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) || command.ProcessState.ExitCode() != tc.code {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range tc.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("it says\n%s\nwant %q", out, want)
				}
				if strings.Contains(want, "\n") && !strings.Contains(string(text), want) {
					t.Errorf("the README does not show %q", want)
				}
			}
		})
	}
	for _, command := range regexp.MustCompile(`(?m)^weir .*$`).FindAllString(string(text), -1) {
		if !slices.ContainsFunc(tests, func(tc struct {
			command string
			code    int
			says    []string
		}) bool {
			return tc.command == command
		}) {
			t.Errorf("%q is not tried", command)
		}
	}
}
