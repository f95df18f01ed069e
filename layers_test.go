package weir_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const modulePath = "weir.dev/weir"

// listed is a package as go list prints it.
type listed struct {
	ImportPath  string
	Imports     []string
	TestImports []string
}

// name is the path within the module.
func (p *listed) name() string { return within(p.ImportPath) }

func within(importPath string) string { return strings.TrimPrefix(importPath, modulePath+"/") }

// own are the packages of the module that p imports.
func (p *listed) own() []string {
	var names []string
	for _, i := range p.Imports {
		if strings.HasPrefix(i, modulePath+"/") {
			names = append(names, within(i))
		}
	}
	return names
}

func listPackages(t *testing.T) []*listed {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports", "./...")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []*listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &listed{}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != modulePath { // the tests of the house itself
			packages = append(packages, p)
		}
	}
	if len(packages) < 20 {
		t.Fatalf("go list names %d packages only", len(packages))
	}
	return packages
}

// tableOf returns the rows of the first table below a heading of ARCHITECTURE.md, without code marks.
func tableOf(t *testing.T, heading string) [][]string {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("ARCHITECTURE.md has no section %q", heading)
	}
	var rows [][]string
	for line := range strings.Lines(section) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") {
			break
		}
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "`", ""))
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("section %q has no table", heading)
	}
	return rows[2:] // without head and rule
}

func names(cell string) []string {
	var list []string
	for name := range strings.SplitSeq(cell, ",") {
		if name = strings.TrimSpace(name); name != "" && name != "–" {
			list = append(list, name)
		}
	}
	return list
}

// matches reports whether a package is one that pattern names: a path, dir/* for those right below a directory,
// or dir/** for a directory and all below it.
func matches(pattern, name string) bool {
	if root, ok := strings.CutSuffix(pattern, "/**"); ok {
		return name == root || strings.HasPrefix(name, root+"/")
	}
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// rowOf returns the row of a package: that whose pattern is the longest.
func rowOf(rows [][]string, name string) []string {
	var best []string
	for _, row := range rows {
		if matches(row[0], name) && (best == nil || len(row[0]) > len(best[0])) {
			best = row
		}
	}
	return best
}

// TestLayers compares the import table of ARCHITECTURE.md with what the packages import.
func TestLayers(t *testing.T) {
	rows := tableOf(t, "Who may import whom")
	used := map[string]bool{}
	for _, p := range listPackages(t) {
		row := rowOf(rows, p.name())
		if row == nil {
			t.Errorf("%s is not in the import table of ARCHITECTURE.md: add a row that says what it is and what it may import", p.name())
			continue
		}
		used[row[0]] = true
		allowed := names(row[1])
		for _, i := range p.own() {
			if !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, i) }) {
				t.Errorf("%s imports %s; the import table of ARCHITECTURE.md allows %s only", p.name(), i, row[1])
			}
		}
	}
	for _, row := range rows {
		if !used[row[0]] {
			t.Errorf("the import table of ARCHITECTURE.md has a row for %s, and there is no such package", row[0])
		}
	}
}

// TestOutsideLayers compares the table of modules that few may import with what the packages import.
func TestOutsideLayers(t *testing.T) {
	packages := listPackages(t)
	for _, row := range tableOf(t, "Who may import what is bought") {
		importers, used := names(row[1]), false
		for _, p := range packages {
			for _, i := range p.Imports {
				if !matches(row[0], i) {
					continue
				}
				used = true
				if !slices.ContainsFunc(importers, func(pattern string) bool { return matches(pattern, p.name()) }) {
					t.Errorf("%s imports %s; ARCHITECTURE.md allows that to %s only", p.name(), i, row[1])
				}
			}
		}
		if len(importers) > 0 && !used {
			t.Errorf("ARCHITECTURE.md says who may import %s, and nobody does", row[0])
		}
	}
}

// TestNoServerBelow keeps the parts that are used without the server free of it, in their tests too.
func TestNoServerBelow(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, below := range []string{"abi/**", "host/**", "policies/**", "sdk/**"} {
			if !matches(below, p.name()) {
				continue
			}
			for _, i := range slices.Concat(p.Imports, p.TestImports) {
				if matches("server/**", within(i)) {
					t.Errorf("%s imports %s: what is below the server must not know it", p.name(), i)
				}
			}
		}
	}
}

// TestDependenciesAreExplained wants a line in RATIONALE.md for each direct dependency.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	rationale, err := os.ReadFile("RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, m := range regexp.MustCompile(`(?m)^\s+(\S+) v\S+(.*)$`).FindAllStringSubmatch(string(mod), -1) {
		if strings.Contains(m[2], "// indirect") {
			continue
		}
		count++
		if !strings.Contains(string(rationale), "`"+m[1]+"`") {
			t.Errorf("RATIONALE.md does not say why %s is needed", m[1])
		}
	}
	if count == 0 {
		t.Error("go.mod names no direct dependency")
	}
}

// TestFilesStaySmall holds the bound of a file of Go: past 800 lines it is two.
func TestFilesStaySmall(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}\n{{end}}", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(string(text), "\n"); lines > 800 && !strings.Contains(string(text[:min(len(text), 400)]), "Code generated") {
			t.Errorf("%s has %d lines", name, lines)
		}
	}
}
