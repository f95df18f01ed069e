// Package guard tests one policy in four languages, as weir module init begins a module with it.
package guard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir.dev/weir/sdk/build"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/servertest/tools"
)

// A command of a README, and what stands beside it in comments: parts of what it prints.
type command struct {
	line string
	says []string
}

// commandsOf are the commands of the sh blocks of a README. One that goes on in the next line is one.
func commandsOf(text string) (all []command) {
	comment := regexp.MustCompile(`(?m)(?:^|\s)\s*# (.*)$`)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		goesOn := false
		for line := range strings.Lines(block[1]) {
			line = strings.TrimSuffix(line, "\n")
			says := comment.FindStringSubmatch(line)
			if says != nil {
				line = strings.TrimSuffix(line, says[0])
			}
			switch {
			case goesOn:
				all[len(all)-1].line += "\n" + line
			case strings.TrimSpace(line) != "":
				all = append(all, command{line: line})
			}
			if says != nil {
				all[len(all)-1].says = append(all[len(all)-1].says, says[1])
			}
			goesOn = strings.HasSuffix(line, `\`)
		}
	}
	return all
}

// What the READMEs say that a test has to know. It fails where they do not.
const (
	serving    = "weir serve --module-dir modules"
	putInForce = "mkdir -p modules && cp guard.wasm modules/"
	measuring  = "weir module bench guard.wasm --hook validateCreate --object good.yaml"
	newVersion = "weir module build . -o modules/guard.wasm"
	whyNot     = "kubectl get module guard -o jsonpath='{.status.lastError}'"
	misspelt   = "kubectl get strategy deployments.apps -o jsonpath='{.status.lastError}'"
	refused    = "kubectl apply -f bad.yaml"
)

// TestReadme does in each language what a newcomer does: begins a module outside of this repository, types the
// commands of the README that it has as they stand there, and sees what stands beside them.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary, and a guest of each language")
	}
	kubectl := servertest.Kubectl(t)
	bin := t.TempDir()
	if err := tools.BuildWeir(t.Context(), filepath.Join(bin, "weir")); err != nil {
		t.Fatal(err)
	}
	for _, language := range build.Languages() {
		t.Run(string(language), func(t *testing.T) {
			needs(t, language)
			t.Parallel()
			a := newAuthor(t, language, bin, filepath.Dir(kubectl))
			a.begins(t)
			written := a.files(t)
			a.typesAll(t)
			a.keeps(t, written)
		})
	}
}

// An author is somebody at a shell.
type author struct {
	language build.Language
	// dir that the commands are typed in, and what they have in their environment.
	dir string
	env []string
}

// newAuthor gives the programs of the directories to an author, and nothing that others have left.
func newAuthor(t *testing.T, language build.Language, programs ...string) *author {
	t.Helper()
	goCache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	if language == build.Rust {
		programs = append(programs, rustDir(t))
	}
	home := t.TempDir()
	return &author{language: language, dir: t.TempDir(), env: append(os.Environ(),
		"PATH="+strings.Join(append(programs, os.Getenv("PATH")), ":"),
		// Compiled modules are kept below it, and Go's, which are not the author's to wait for, where they are.
		"XDG_CACHE_HOME="+home, "GOCACHE="+strings.TrimSpace(string(goCache)),
		// No package is to be had, npm's apart.
		"GOFLAGS=", "GOWORK=off", "GOPROXY=off", "CARGO_NET_OFFLINE=true",
		"KUBECACHEDIR="+home, "KUBECONFIG="+filepath.Join(home, "none"),
	)}
}

// rustDir is where in PATH there is a Rust that compiles to WebAssembly: a machine may have others, and an author has one.
func rustDir(t *testing.T) string {
	t.Helper()
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		lib, err := exec.CommandContext(t.Context(), filepath.Join(dir, "rustc"), "--print", "target-libdir", "--target", "wasm32-unknown-unknown").Output()
		if err != nil {
			continue
		}
		if core, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(lib)), "libcore-*.rlib")); len(core) > 0 {
			return dir
		}
	}
	t.Fatal("no Rust for WebAssembly in PATH")
	return ""
}

// shell makes the command of a line.
func (a *author) shell(ctx context.Context, line string) *exec.Cmd {
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir, c.Env = a.dir, a.env
	return c
}

// types has a shell run a command and sees what it says. What is refused fails, and says no more than that. A status is
// asked for until it says so, for a minute, as the server writes it after the request that it is about.
func (a *author) types(t *testing.T, c command) string {
	t.Helper()
	for ends := time.Now().Add(time.Minute); ; {
		out, err := a.shell(t.Context(), c.line).CombinedOutput()
		missing := slices.IndexFunc(c.says, func(part string) bool { return !bytes.Contains(out, []byte(part)) })
		if missing >= 0 && strings.Contains(c.line, "{.status.") && err == nil && time.Now().Before(ends) {
			continue
		}
		switch {
		case (err != nil) != strings.Contains(c.line, "bad.yaml"):
			t.Fatalf("%s\n%v\n%s", c.line, err, out)
		case missing >= 0:
			t.Errorf("%s\nwant %q\n%s", c.line, c.says[missing], out)
		case c.line == refused && len(regexp.MustCompile(`[a-z]+\.\S+: [A-Z]`).FindAll(out, -1)) != len(c.says):
			t.Errorf("%s\nwant %q and no more\n%s", c.line, c.says, out)
		}
		return string(out)
	}
}

// begins types the first command, of the README in the repository, and stays in the directory that it makes.
func (a *author) begins(t *testing.T) {
	t.Helper()
	text := file(t, filepath.Join(string(a.language), "README.md"))
	first := commandsOf(text)[0]
	if want := "weir module init guard --lang " + string(a.language) + " && cd guard"; first.line != want {
		t.Fatalf("the README begins with %q, want %q", first.line, want)
	}
	a.types(t, first)
	a.dir = filepath.Join(a.dir, "guard")
	if written := file(t, filepath.Join(a.dir, "README.md")); written != text {
		t.Errorf("the README of the module is\n%s", written)
	}
}

// typesAll types the commands after the first one. What they have to say is in the README, but for a few things.
func (a *author) typesAll(t *testing.T) {
	t.Helper()
	typed := map[string]bool{}
	for _, c := range commandsOf(file(t, filepath.Join(a.dir, "README.md")))[1:] {
		switch c.line {
		case serving:
			a.serves(t)
		case newVersion:
			a.asksForMore(t)
			a.types(t, c)
		case whyNot:
			a.types(t, command{c.line, []string{`asks for "lookup:configmaps", "authorize", which are not granted`}})
			a.types(t, command{refused, []string{"every Deployment has one"}}) // by the old one
			a.isGrantedMore(t)
		case measuring:
			a.compares(t, a.types(t, c))
		default:
			a.types(t, c)
		}
		if c.line == misspelt {
			a.types(t, command{refused, []string{"every Deployment has one"}}) // by the last good settings
		}
		if c.line == putInForce {
			a.change(t, "guard.wasm", func(string) string { return "" }) // it is built again by hand
		}
		typed[c.line] = true
	}
	a.types(t, command{"weir module inspect guard.wasm", []string{"guard 1.0.0"}})
	for _, line := range []string{serving, newVersion, whyNot, measuring, misspelt, putInForce, refused} {
		if !typed[line] {
			t.Errorf("the README has no command %q", line)
		}
	}
}

// files of the author's directory, and directories in it.
func (a *author) files(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// keeps compares what the commands have made with .gitignore, as the server's keys are among it. What locks the versions
// of packages is to be kept.
func (a *author) keeps(t *testing.T, written map[string]bool) {
	t.Helper()
	ignored := strings.Fields(file(t, filepath.Join(a.dir, ".gitignore")))
	for name := range a.files(t) {
		if !written[name] && !slices.Contains(ignored, "/"+name+"/") && filepath.Ext(name) != ".wasm" && name != "Cargo.lock" && name != "package-lock.json" {
			t.Errorf(".gitignore does not have %s, which the commands of the README made", name)
		}
	}
}

// serves starts a server, which ends with the test. Its port is any, for others may have the usual one.
func (a *author) serves(t *testing.T) {
	t.Helper()
	server := a.shell(t.Context(), "exec "+serving+" --secure-port=0")
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	server.WaitDelay = time.Minute
	server.Stderr = t.Output()
	prints, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Wait(); !errors.Is(err, context.Canceled) { // which a good end is after Cancel
			t.Errorf("serve: %v", err)
		}
	})
	late := time.AfterFunc(time.Minute, func() { _ = server.Process.Kill() }) // then it prints nothing any more
	defer late.Stop()
	for lines := bufio.NewScanner(prints); lines.Scan(); {
		if setting, ok := strings.CutPrefix(lines.Text(), "export "); ok {
			a.env = append(a.env, setting)
			return
		}
	}
	t.Fatal("the server prints no export")
}

// asksForMore adds the capabilities to the source that the README shows.
func (a *author) asksForMore(t *testing.T) {
	t.Helper()
	source, after := "main.go", `Version: "1.0.0",`
	switch a.language {
	case build.C:
		source, after = "src/guard.c", `.version = "1.0.0",`
	case build.Rust:
		source, after = "src/lib.rs", `version: "1.0.0",`
	case build.AssemblyScript:
		source, after = "assembly/index.ts", `new Module("guard", "1.0.0")`
	}
	shown := regexp.MustCompile("(?s)```(?:go|c|rust|ts)\n(.*?)```").FindStringSubmatch(file(t, filepath.Join(a.dir, "README.md")))
	if shown == nil {
		t.Fatal("the README shows no capabilities")
	}
	a.change(t, source, func(text string) string { return strings.Replace(text, after, after+"\n"+shown[1], 1) })
}

// isGrantedMore puts the line of the README in module.yaml.
func (a *author) isGrantedMore(t *testing.T) {
	t.Helper()
	line := regexp.MustCompile("`spec\\.(capabilities: [^`]*)`").FindStringSubmatch(file(t, filepath.Join(a.dir, "README.md")))
	if line == nil {
		t.Fatal("the README does not say what is granted")
	}
	a.change(t, "module.yaml", func(text string) string { return text + "  " + line[1] + "\n" })
	a.types(t, command{"kubectl apply -f module.yaml", []string{"configured"}})
	a.types(t, command{"kubectl get module guard -o jsonpath='{.status.capabilities}'", []string{`["lookup:configmaps","authorize"]`}})
	a.types(t, command{refused, []string{"every Deployment has one"}})
}

// change writes a file of the author's anew; that nothing changes is a mistake.
func (a *author) change(t *testing.T, name string, to func(string) string) {
	t.Helper()
	was := file(t, filepath.Join(a.dir, name))
	is := to(was)
	if is == was {
		t.Fatalf("%s does not change:\n%s", name, was)
	}
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(is), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compares what weir module bench prints with the table of the README of all languages: other compilers, and in Go
// that the module is one of its own, change the fuel by less than a tenth.
func (a *author) compares(t *testing.T, bench string) {
	t.Helper()
	printed := regexp.MustCompile(`validateCreate .* µs +([\d,]+) `).FindStringSubmatch(bench)
	row := regexp.MustCompile(`(?m)^\| fuel \| (.*) \|$`).FindStringSubmatch(file(t, "README.md"))
	if printed == nil || row == nil {
		t.Fatalf("no fuel in the README, or in\n%s", bench)
	}
	column := slices.Index([]build.Language{build.Go, build.C, build.Rust, build.AssemblyScript}, a.language)
	got, want := number(t, printed[1]), number(t, strings.Split(row[1], " | ")[column])
	if off := got - want; max(off, -off)*10 > want {
		t.Errorf("a call takes fuel %d, and README.md says %d", got, want)
	}
}

func number(t *testing.T, grouped string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(grouped, ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestReadmesAgree compares the READMEs of the languages: the same sections, and the same commands but those that are of
// a language.
func TestReadmesAgree(t *testing.T) {
	outline := func(language build.Language) (lines []string) {
		text := file(t, filepath.Join(string(language), "README.md"))
		lines = append(lines, regexp.MustCompile(`(?m)^## .*$`).FindAllString(text, -1)...)
		for _, c := range commandsOf(text)[1:] {
			if strings.HasPrefix(c.line, "weir ") || strings.HasPrefix(c.line, "kubectl ") {
				lines = append(lines, c.line+" "+strings.Join(c.says, " "))
			}
		}
		return lines
	}
	want := outline(build.Go)
	for _, language := range build.Languages() {
		if got := outline(language); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant as in Go:\n%s", language, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// needs skips the test without the tools of a language, but fails it where CI is set, whose tools `make toolchains`
// installs.
func needs(t *testing.T, language build.Language) {
	t.Helper()
	if missing := build.Missing(t.Context(), language); missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
