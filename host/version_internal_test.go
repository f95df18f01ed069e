package host

import (
	"errors"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/internal/rewrite"
	"weir.dev/weir/host/internal/wasmtest"
)

// TestVersions: a host takes the newest version of the contract it has and the
// one before, and says what to do about modules of others.
func TestVersions(t *testing.T) {
	const none = "exports no function "
	tests := []struct {
		name    string
		newest  int
		markers []string
		want    string
	}{
		{"its own", 1, []string{"weir_abi_v1"}, ""},
		{"the next", 1, []string{"weir_abi_v2"}, "built for weir_abi_v2, which is newer than what this host takes (weir_abi_v1): upgrade the server, or build the module with an SDK for weir_abi_v1"},
		{"there is none before the first", 1, []string{"weir_abi_v0"}, "built for weir_abi_v0, which is older than what this host takes (weir_abi_v1): build the module again with an SDK for weir_abi_v1"},
		{"one of several", 1, []string{"weir_abi_v2", "weir_abi_v1"}, ""},
		{"no marker", 1, nil, none + "weir_abi_v1: it was not built with an SDK for this contract"},
		{"no number", 1, []string{"weir_abi_vx", "weir_abi_v", "weir_abi_v01", "weir_abi_v+1", "weir_abi_v-1", "weir_abi_v1.0"}, none + "weir_abi_v1: it was not built with an SDK for this contract"},

		{"the newest", 2, []string{"weir_abi_v2"}, ""},
		{"the one before", 2, []string{"weir_abi_v1"}, ""},
		{"of three, the newest", 3, []string{"weir_abi_v3"}, ""},
		{"of three, the one before", 3, []string{"weir_abi_v2"}, ""},
		{"of three, the first", 3, []string{"weir_abi_v1"}, "built for weir_abi_v1, which is older than what this host takes (weir_abi_v2 and weir_abi_v3): build the module again with an SDK for weir_abi_v3"},
		{"of three, the next", 3, []string{"weir_abi_v4"}, "built for weir_abi_v4, which is newer than what this host takes (weir_abi_v2 and weir_abi_v3): upgrade the server, or build the module with an SDK for weir_abi_v3"},
		{"of three, no marker", 3, nil, none + "weir_abi_v3: it was not built with an SDK for this contract"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			exports := map[string]rewrite.FuncType{"weir_describe": {}}
			for _, m := range tc.markers {
				exports[m] = rewrite.FuncType{}
			}
			got := ""
			if err := checkMarker(exports, tc.newest); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestVersionsAreTheContracts compares the host's rule and names with those of
// the contract.
func TestVersionsAreTheContracts(t *testing.T) {
	if oldestVersion(abi.Version) != abi.OldestVersion {
		t.Errorf("from version %d on, the contract says %d", oldestVersion(abi.Version), abi.OldestVersion)
	}
	if marker(abi.Version) != abi.ExportMarker {
		t.Errorf("the marker of version %d is %s, the contract says %s", abi.Version, marker(abi.Version), abi.ExportMarker)
	}
	all := imports()
	if _, ok := all[abi.ImportModule]; !ok {
		t.Errorf("no imports of %s", abi.ImportModule)
	}
	for name := range all {
		if v, ok := versionIn(name, abi.ImportModulePrefix); ok && checkVersion(v, abi.Version) != nil {
			t.Errorf("there are imports of %s, whose modules are not taken", name)
		}
	}
	for v := abi.OldestVersion; v <= abi.Version; v++ {
		found := false
		for name := range all {
			n, ok := versionIn(name, abi.ImportModulePrefix)
			found = found || ok && n == v
		}
		if !found {
			t.Errorf("no imports of version %d, whose modules are taken", v)
		}
	}
}

// TestModulesOfOtherVersions: a module of another version is refused because of
// that, not because of the first thing in it that is unknown.
func TestModulesOfOtherVersions(t *testing.T) {
	const newer = "refused: built for weir_abi_v2, which is newer than what this host takes (weir_abi_v1): upgrade the server, or build the module with an SDK for weir_abi_v1"
	tests := []struct {
		name, marker, imports string
		class                 Class
		want                  string
	}{
		{"a future version", "weir_abi_v2", "", ClassABIMismatch, newer},
		{"a future version's imports", "weir_abi_v2", "weir.v2", ClassABIMismatch, newer},
		{"no version", "", "", ClassABIMismatch, "refused: exports no function weir_abi_v1: it was not built with an SDK for this contract"},
		{"no version in its imports", "weir_abi_v1", "weir.vx", ClassCapability, `refused: import section: imports "weir.vx"."read", which is not granted`},
	}
	rt, err := NewRuntime(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			b := &wasmtest.Builder{}
			if tc.imports != "" {
				b.Import(tc.imports, "read", b.Type("", wasmtest.I32))
			}
			b.Memory(1)
			if tc.marker != "" {
				b.Func(tc.marker, b.Type("", ""), "", nil)
			}
			_, err := rt.Load(t.Context(), b.Bytes(), ModuleConfig{})
			var e *Error
			if !errors.As(err, &e) || e.Class != tc.class || e.Message != tc.want {
				t.Errorf("%v, want %s: %q", err, tc.class, tc.want)
			}
		})
	}
}
