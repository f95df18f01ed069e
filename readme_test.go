package weir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// commandsOf returns the lines of the sh blocks of a Markdown file.
func commandsOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// TestReadmeCommands runs the commands of the README in their order. make targets are only looked up: make demo has a test
// beside it, make test is this one, make run does not end.
func TestReadmeCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary and a module")
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	kubectl := servertest.Kubectl(t)
	env := servertest.Start(t, servertest.Options{})
	environment := append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(), "KUBECACHEDIR="+t.TempDir(), "PATH="+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	commands := commandsOf(t, "README.md")
	if len(commands) < 5 || commands[0] != "make demo" || commands[1] != "make test" {
		t.Fatalf("the README begins with %q; want make demo, make test", commands)
	}
	for _, line := range commands {
		t.Run(line, func(t *testing.T) {
			if target, ok := strings.CutPrefix(line, "make "); ok {
				if !strings.Contains(string(makefile), "\n"+target+":") {
					t.Errorf("the Makefile has no target %s", target)
				}
				return
			}
			command := exec.CommandContext(t.Context(), "sh", "-c", line)
			command.Env = environment
			out, err := command.CombinedOutput()
			if refused := strings.HasSuffix(line, "# refused"); (err != nil) != refused {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestLinks looks up what the Markdown files at the root link to.
func TestLinks(t *testing.T) {
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			if _, err := os.Stat(link[1]); err != nil {
				t.Errorf("%s links to %s: %v", file, link[1], err)
			}
		}
	}
}

// TestPathsOfArchitecture looks up the packages and files that ARCHITECTURE.md and CONTRIBUTING.md name.
func TestPathsOfArchitecture(t *testing.T) {
	for _, file := range []string{"ARCHITECTURE.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range regexp.MustCompile("`((?:abi|host|sdk|modules|policies|server|examples)/[A-Za-z0-9_./{},-]+)`").FindAllStringSubmatch(string(text), -1) {
			for _, name := range expand(code[1]) {
				if _, err := os.Stat(name); err != nil {
					t.Errorf("%s names %s: %v", file, name, err)
				}
			}
		}
	}
}

// expand resolves one {a,b}.
func expand(name string) []string {
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	list, after, _ := strings.Cut(rest, "}")
	var names []string
	for item := range strings.SplitSeq(list, ",") {
		names = append(names, before+item+after)
	}
	return names
}
