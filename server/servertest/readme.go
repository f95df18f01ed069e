package servertest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Typed is a kubectl command of a README and what must come of it.
type Typed struct {
	// Command as it stands there, on a line of its own.
	Command string
	// Args are what a shell makes of it, without kubectl.
	Args []string
	// Says are parts of what it prints, to either output. Those of a command that fails are in the README too.
	Says  []string
	Fails bool
	// Writes is the file that what it prints goes to, where a shell would be told so; "": none.
	Writes string
	// Until repeats it until it says so, for what the server does by itself.
	Until bool
}

// untilTimeout bounds how long a command is repeated.
const untilTimeout = 2 * time.Minute

// TypeReadme types the kubectl commands of ./README.md against the environment and sees what they say. It fails when the
// README has others.
func TypeReadme(t *testing.T, env *Environment, commands []Typed) {
	t.Helper()
	kubectl := Kubectl(t)
	home := t.TempDir()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args []string) (string, error) {
		command := exec.CommandContext(t.Context(), kubectl, args...)
		command.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(), "HOME="+home)
		var out bytes.Buffer
		command.Stdout, command.Stderr = &out, &out
		err := command.Run()
		return out.String(), err
	}
	for _, c := range commands {
		t.Run(c.Command, func(t *testing.T) {
			if !strings.Contains(string(text), "\n"+c.Command+"\n") {
				t.Errorf("the README does not have this command")
			}
			out, err := run(c.Args)
			for ends := time.Now().Add(untilTimeout); c.Until && !says(out, c.Says) && time.Now().Before(ends); {
				out, err = run(c.Args)
			}
			if c.Writes != "" {
				if err := os.WriteFile(c.Writes, []byte(out), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if (err != nil) != c.Fails {
				t.Errorf("%v\n%s", err, out)
			}
			for _, want := range c.Says {
				if !strings.Contains(out, want) {
					t.Errorf("it says %q, want %q", out, want)
				}
				if c.Fails && !strings.Contains(string(text), want) {
					t.Errorf("the README does not show %q", want)
				}
			}
		})
	}
	if there := regexp.MustCompile(`(?m)^kubectl .*$`).FindAllString(string(text), -1); len(there) != len(commands) {
		t.Errorf("the README has %d commands, of which %d are tried", len(there), len(commands))
	}
}

func says(out string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(out, part) {
			return false
		}
	}
	return true
}
