package hosttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/abitest"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/sdk/build"
	"weir.dev/weir/sdk/cases"
)

var rewrite = flag.Bool("rewrite", false, "write the fuel of the examples anew")

const (
	repository = "../.."
	fuelFile   = "testdata/fuel.json"
)

// A measured guest, in its directory of the repository.
type measured struct {
	dir   string
	calls func(*testing.T) []fuelCall
}

// A fuelCall is a call of a guest that is configured with settings.
type fuelCall struct {
	name     string
	settings string
	call     *host.Call
}

// A fuelRecord is what the calls of a guest used when it was measured.
type fuelRecord struct {
	// Toolchain that compiled the guest.
	Toolchain string `json:"toolchain"`
	// Digest of the module.
	Digest string `json:"digest"`
	// Fuel by the name of the call.
	Fuel map[string]uint64 `json:"fuel"`
}

func measuredGuests() []measured {
	guard := casesIn("examples/guard/cases")
	var all []measured
	for _, language := range build.Languages() {
		all = append(all,
			measured{"examples/guard/" + string(language), guard},
			measured{"sdk/conformance/" + string(language), clauses})
	}
	return append(all,
		measured{"examples/wasm-policy", casesIn("examples/wasm-policy/cases")},
		measured{"examples/lookup", casesIn("examples/lookup/cases")},
		measured{"examples/first-module", everyHook("examples/first-module/good.yaml")},
		measured{"examples/deployment/strict", everyHook("examples/deployment/deploy.yaml")},
		measured{"modules/deployment", everyHook("examples/deployment/deploy.yaml")},
	)
}

// TestFuel: what a call costs is the same on every machine, compiled and
// interpreted, and for the modules that were measured it is what is in
// testdata/fuel.json. Fuel counts the instructions of the module, so it
// depends on the compiler that made it: what another version of a toolchain
// made, a module of another digest, is only compared with the interpreter, see
// compareFuel.
func TestFuel(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and the interpreter takes ten times as long under the race detector")
	}
	if testing.Short() {
		t.Skip("builds a guest of each language")
	}
	records := map[string]fuelRecord{}
	raw, err := os.ReadFile(fuelFile)
	if err == nil {
		err = json.Unmarshal(raw, &records)
	}
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	guests := measuredGuests()
	var dirs []string
	for _, g := range guests {
		dirs = append(dirs, g.dir)
		t.Run(g.dir, func(t *testing.T) {
			language, wasm := buildExample(t, g.dir)
			have := fuelRecord{Toolchain: toolchain(t, g.dir, language), Digest: host.Digest(wasm)}
			calls := g.calls(t)
			have.Fuel = fuelOf(t, wasm, calls, false)
			for name, fuel := range fuelOf(t, wasm, calls, true) {
				if have.Fuel[name] != fuel {
					t.Errorf("%s: %d units compiled, %d interpreted", name, have.Fuel[name], fuel)
				}
			}
			if *rewrite {
				records[g.dir] = have
				return
			}
			compareFuel(t, have, records[g.dir])
		})
	}
	if found := exampleDirs(t); !*rewrite && !slices.Equal(found, slices.Sorted(slices.Values(dirs))) {
		t.Errorf("there are guests in %q, measured are %q", found, dirs)
	}
	for dir := range records {
		switch {
		case slices.Contains(dirs, dir):
		case *rewrite:
			delete(records, dir)
		default:
			t.Errorf("%s has %s, where no guest is measured", fuelFile, dir)
		}
	}
	if *rewrite && !t.Failed() {
		raw, err := json.MarshalIndent(records, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(fuelFile, append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// measureAgain is what to do when the fuel of guests has changed.
const measureAgain = "go test ./host/hosttest -run TestFuel -rewrite"

// compareFuel compares what was used with what is in testdata/fuel.json. A
// module that another version of its toolchain made has no fuel to compare it
// with: the test is skipped, and says how to measure anew. One of another digest
// that the same version made is a failure where CI is set.
func compareFuel(t testing.TB, have, want fuelRecord) {
	t.Helper()
	if want.Digest == "" {
		t.Errorf("not in %s; to measure it: %s", fuelFile, measureAgain)
		return
	}
	if have.Digest != want.Digest && have.Toolchain != want.Toolchain {
		if slices.Equal(versionsOf(have.Toolchain), versionsOf(want.Toolchain)) && os.Getenv("CI") != "" {
			t.Errorf("%q made another module than %q, of the same version, did when %s was measured; if that is meant: %s",
				have.Toolchain, want.Toolchain, fuelFile, measureAgain)
			return
		}
		t.Skipf("fuel not compared: %s is for modules of %q, this one is of %q; to measure those of this toolchain: %s",
			fuelFile, want.Toolchain, have.Toolchain, measureAgain)
	}
	differs := false
	for name, fuel := range have.Fuel {
		if was, ok := want.Fuel[name]; !ok || was != fuel {
			t.Errorf("%s: %d units, want %d", name, fuel, was)
			differs = true
		}
	}
	for name := range want.Fuel {
		if _, ok := have.Fuel[name]; !ok {
			t.Errorf("%s: is no more", name)
			differs = true
		}
	}
	if differs {
		t.Errorf("module %s, measured was %s; if other fuel is meant: %s", have.Digest, want.Digest, measureAgain)
	}
}

var versionNumber = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// versionsOf are the versions of the tools of a toolchain.
func versionsOf(toolchain string) []string { return versionNumber.FindAllString(toolchain, -1) }

// outcome notes how a test would have ended.
type outcome struct {
	testing.TB
	failed, skipped string
}

func (o *outcome) Helper() {}

func (o *outcome) Errorf(format string, args ...any) { o.failed += fmt.Sprintf(format, args...) + "\n" }

func (o *outcome) Skipf(format string, args ...any) {
	o.skipped = fmt.Sprintf(format, args...)
	panic(o)
}

// TestCompareFuel: fuel that is not what was measured never passes, and only
// where the version of a compiler has changed is it not compared.
func TestCompareFuel(t *testing.T) {
	const (
		measured = "Debian clang version 14.0.6, Debian LLD 14.0.6"
		rebuilt  = "Ubuntu clang version 14.0.6-1, Ubuntu LLD 14.0.6"
		patched  = "Debian clang version 14.0.7, Debian LLD 14.0.6"
	)
	record := func(toolchain, digest string, fuel uint64) fuelRecord {
		return fuelRecord{Toolchain: toolchain, Digest: digest, Fuel: map[string]uint64{"call": fuel}}
	}
	want := record(measured, "a", 7)
	tests := []struct {
		name            string
		have, want      fuelRecord
		ci              string
		failed, skipped string // a part of it; "" if it may not
	}{
		{"the same", record(measured, "a", 7), want, "1", "", ""},
		{"other fuel", record(measured, "a", 8), want, "", "call: 8 units, want 7", ""},
		{"another module", record(measured, "b", 7), want, "1", "", ""},
		{"another module, other fuel", record(measured, "b", 8), want, "", "call: 8 units, want 7", ""},
		{"another compiler, the same module", record(patched, "a", 8), want, "1", "call: 8 units, want 7", ""},
		{"a call more", record(measured, "a", 7), fuelRecord{measured, "a", map[string]uint64{}}, "", "call: 7 units, want 0", ""},
		{"a call less", fuelRecord{measured, "a", nil}, want, "", "call: is no more", ""},
		{"never measured", record(measured, "a", 7), fuelRecord{}, "", "not in " + fuelFile, ""},
		{"a patch release", record(patched, "b", 8), want, "1", "", `modules of "` + measured + `", this one is of "` + patched + `"; to measure those of this toolchain: ` + measureAgain},
		{"a patch release at home", record(patched, "b", 8), want, "", "", "to measure those of this toolchain: " + measureAgain},
		{"another build of the compiler", record(rebuilt, "b", 8), want, "1", "of the same version", ""},
		{"another build of the compiler at home", record(rebuilt, "b", 8), want, "", "", "fuel not compared"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("CI", tc.ci)
			o := &outcome{TB: t}
			func() {
				defer func() {
					if r := recover(); r != nil && r != any(o) {
						panic(r)
					}
				}()
				compareFuel(o, tc.have, tc.want)
			}()
			if (o.failed == "") != (tc.failed == "") || !strings.Contains(o.failed, tc.failed) {
				t.Errorf("fails with %q, want %q", o.failed, tc.failed)
			}
			if (o.skipped == "") != (tc.skipped == "") || !strings.Contains(o.skipped, tc.skipped) {
				t.Errorf("skipped with %q, want %q", o.skipped, tc.skipped)
			}
		})
	}
}

// fuelOf runs the calls, twice, so that each meets what others have left.
func fuelOf(t *testing.T, wasm []byte, calls []fuelCall, interpreter bool) map[string]uint64 {
	t.Helper()
	// The engine's interpreter has a limit of its own of 2,000 nested calls. On
	// a slow machine, too, it is not the clock that stops a guest.
	rt := newRuntime(t, host.Config{Interpreter: interpreter, Guests: 1, Limits: host.Limits{Depth: 1500, Timeout: time.Hour}})
	modules := map[string]*host.Module{}
	fuel := map[string]uint64{}
	for round := range 2 {
		for _, c := range calls {
			m := modules[c.settings]
			if m == nil {
				config, err := hosttest.ConformanceConfig()
				if err != nil {
					t.Fatal(err)
				}
				config.Settings, config.GrantAll = json.RawMessage(c.settings), true
				if m, err = rt.Load(t.Context(), wasm, config); err != nil {
					t.Fatal(err)
				}
				modules[c.settings] = m
			}
			if !m.Handles(c.call.Op) {
				continue
			}
			call := *c.call
			res, err := m.Call(context.Background(), &call)
			var used uint64
			var e *host.Error
			switch {
			case errors.As(err, &e):
				used = e.Fuel
			case err != nil:
				t.Fatal(err)
			default:
				used = res.Fuel
			}
			if used == 0 {
				t.Errorf("%s: no fuel was used: %v", c.name, err)
			}
			if was, ok := fuel[c.name]; round > 0 && (!ok || was != used) {
				t.Errorf("%s: %d units, then %d", c.name, was, used)
			}
			fuel[c.name] = used
		}
	}
	if len(fuel) == 0 {
		t.Error("nothing was called")
	}
	for _, m := range modules {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	return fuel
}

// casesIn are the cases of a directory.
func casesIn(dir string) func(*testing.T) []fuelCall {
	return func(t *testing.T) (calls []fuelCall) {
		suites, err := cases.Load(os.DirFS(repository), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, suite := range suites {
			for _, c := range suite.Cases {
				if c.Call.Op == abi.OpConfigure {
					continue
				}
				calls = append(calls, fuelCall{suite.Name + ": " + c.Name, string(c.Settings), &c.Call})
			}
		}
		return calls
	}
}

// clauses are those of the conformance kit.
func clauses(t *testing.T) (calls []fuelCall) {
	for _, c := range abitest.Clauses() {
		call, err := hosttest.HostCall(c.Call())
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, fuelCall{c.Op.String() + " " + c.Name, abitest.Settings, call})
	}
	return calls
}

// everyHook calls every hook with the object of a file.
func everyHook(file string) func(*testing.T) []fuelCall {
	return func(t *testing.T) (calls []fuelCall) {
		raw, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		raw, _, _ = bytes.Cut(raw, []byte("\n---"))
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			t.Fatal(err)
		}
		object, err := document.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range abi.Ops() {
			if op == abi.OpConfigure || op == abi.OpConvert || op == abi.OpConnect {
				continue
			}
			call := &host.Call{Op: op, Object: object, OldObject: object}
			if call.Meta, err = host.NewMeta(cases.Request(call)); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, fuelCall{op.String(), "", call})
		}
		return calls
	}
}

// buildExample builds the guest of a directory. Without its tools the test is
// skipped, but fails where CI is set.
func buildExample(t testing.TB, dir string) (build.Language, []byte) {
	t.Helper()
	dir = filepath.Join(repository, dir)
	language, err := build.Detect(dir)
	if err != nil {
		t.Fatal(err)
	}
	if missing := build.Missing(t.Context(), language); missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	if language == build.Rust {
		dir = movedCrate(t, dir)
	}
	file := filepath.Join(t.TempDir(), "guest.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: dir, Output: file, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return language, wasm
}

var sdkPath = regexp.MustCompile(`path = "[./]*(sdk/)?rust"`)

// movedCrate copies a crate and puts the SDK in it: only then does what cargo
// makes not depend on the directory that all is in.
func movedCrate(t testing.TB, dir string) string {
	t.Helper()
	moved := t.TempDir()
	for from, to := range map[string]string{dir: moved, filepath.Join(repository, "sdk/rust"): filepath.Join(moved, "weir")} {
		if err := os.CopyFS(filepath.Join(to, "src"), os.DirFS(filepath.Join(from, "src"))); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Cargo.toml", "Cargo.lock"} {
			raw, err := os.ReadFile(filepath.Join(from, name))
			if errors.Is(err, fs.ErrNotExist) && name == "Cargo.lock" {
				continue // cargo makes it
			}
			if err != nil {
				t.Fatal(err)
			}
			raw = sdkPath.ReplaceAll(raw, []byte(`path = "weir"`))
			if err := os.WriteFile(filepath.Join(to, name), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("RUSTFLAGS", "-C link-arg=-zstack-size=65536 --remap-path-prefix="+moved+"=.")
	return moved
}

// toolchain says which compiler made a guest, by what each says of itself.
func toolchain(t *testing.T, dir string, language build.Language) string {
	t.Helper()
	say := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = filepath.Join(repository, dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		first, _, _ := strings.Cut(string(out), "\n")
		return strings.TrimSpace(first)
	}
	switch language {
	case build.Go:
		return say("go", "env", "GOVERSION")
	case build.C:
		return say("clang", "--version") + ", " + say("wasm-ld", "--version")
	case build.Rust:
		// One of them has the target.
		var all []string
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			if rustc, err := exec.LookPath(filepath.Join(dir, "rustc")); err == nil {
				all = append(all, say(rustc, "--version"))
			}
		}
		return strings.Join(slices.Compact(all), ", ")
	}
	raw, err := os.ReadFile(filepath.Join(repository, dir, "node_modules/assemblyscript/package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Name, Version string }
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p.Name + " " + p.Version
}

// exampleDirs are the directories that have a guest.
func exampleDirs(t *testing.T) (dirs []string) {
	t.Helper()
	root := os.DirFS(repository)
	for _, top := range []string{"examples", "modules", "sdk/conformance"} {
		err := fs.WalkDir(root, top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if slices.Contains([]string{"node_modules", "target", "build", "testdata"}, d.Name()) {
				return fs.SkipDir
			}
			if isGuest(root, path) {
				dirs = append(dirs, path)
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(dirs)
	return dirs
}

func isGuest(root fs.FS, dir string) bool {
	for _, sign := range []string{"Cargo.toml", "asconfig.json", "src/*.c"} {
		if found, _ := fs.Glob(root, dir+"/"+sign); len(found) > 0 {
			return true
		}
	}
	main, err := fs.ReadFile(root, dir+"/main.go")
	return err == nil && strings.Contains(string(main), fmt.Sprintf("%q", "weir.dev/weir/sdk/go"))
}
