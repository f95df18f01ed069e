package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/abi"
)

// sdkSources are what an author sees of each SDK, in the order of the README's
// columns.
var sdkSources = [...]struct{ name, pattern string }{
	{"Go", "../go/*.go"},
	{"C", "../c/*.h"},
	{"Rust", "../rust/src/*.rs"},
	{"AssemblyScript", "../assemblyscript/assembly/*.ts"},
}

// source is all text of an SDK.
func source(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestSurface: each SDK has what sdk/README.md says that all have, and all hooks
// of the contract are in it.
func TestSurface(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources [len(sdkSources)]string
	for i, sdk := range sdkSources {
		sources[i] = source(t, sdk.pattern)
	}
	word := regexp.MustCompile("`([^`]+)`")
	hooks := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "|") || len(cells) != len(sdkSources)+1 {
			continue
		}
		for i, cell := range cells[1:] {
			names := word.FindAllStringSubmatch(cell, -1)
			for _, name := range names {
				if i == 0 {
					hooks[strings.ToLower(name[1])] = true
				}
				if strings.Contains(name[1], ".") || name[1] == "weirtest" {
					continue // a file or a package
				}
				declared := regexp.MustCompile(`\b` + name[1] + `\b *[(:<\[;)},]|\b` + name[1] + ` \{|get ` + name[1] + `\b|\b` + name[1] + `\s+\[|trait ` + name[1] + `\b|macro_rules! ` + name[1] + `\b`)
				if !declared.MatchString(sources[i]) {
					t.Errorf("%s has no %s", sdkSources[i].name, name[1])
				}
			}
			if len(names) == 0 && !strings.HasPrefix(cell, "---") && strings.TrimSpace(cell) != sdkSources[i].name {
				t.Errorf("%s has nothing for %q", sdkSources[i].name, cells[0])
			}
		}
	}
	for _, op := range abi.Ops() {
		if !hooks[strings.ToLower(op.String())] {
			t.Errorf("the hook %v is in no row", op)
		}
	}
}

// TestSnippets: what sdk/README.md shows is, white space apart, in the
// documentation of the SDKs or what their tests build.
func TestSnippets(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := source(t, "../c/*.h") + source(t, "../rust/src/*.rs") + source(t, "../assemblyscript/assembly/*.ts")
	comment := regexp.MustCompile(`(?m)^\s*(///|//!|\*) ?`)
	plain := func(s string) string { return strings.Join(strings.Fields(comment.ReplaceAllString(s, "")), " ") }
	all := plain(sources)
	blocks := regexp.MustCompile("(?s)```(?:c|rust|ts)\n(.*?)```").FindAllSubmatch(text, -1)
	for _, block := range blocks {
		if !strings.Contains(all, plain(string(block[1]))) {
			t.Errorf("nothing has:\n%s", block[1])
		}
	}
	if len(blocks) != 3 {
		t.Errorf("%d snippets", len(blocks))
	}
}
