package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
)

// weir runs the program and returns its output and exit code.
func weir(t *testing.T, args ...string) (stdout string, code int, err error) {
	t.Helper()
	root := rootCommand()
	var out, logs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&logs)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	var exit exitCode
	switch {
	case errors.As(err, &exit):
		return out.String(), int(exit), nil
	case err != nil:
		return out.String(), 2, err
	}
	return out.String(), 0, nil
}

const firstModule = "../../../examples/first-module"

func TestModule(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "quotes.wasm")
	out, code, err := weir(t, "module", "build", firstModule, "-o", file)
	if err != nil || code != 0 {
		t.Fatalf("code %d, %v", code, err)
	}
	for _, want := range []string{"quotes 1.0.0", "quotes.example.com (Quote)", "configure, default, validateCreate, validateUpdate, warningsOnCreate", "sha256:", " bytes, "} {
		if !strings.Contains(out, want) {
			t.Errorf("build does not print %q:\n%s", want, out)
		}
	}
	t.Run("inspect", func(t *testing.T) {
		out, code, err := weir(t, "module", "inspect", file, "-o", "json")
		if err != nil || code != 0 {
			t.Fatalf("code %d, %v", code, err)
		}
		var d description
		if err := json.Unmarshal([]byte(out), &d); err != nil {
			t.Fatal(err)
		}
		if d.Name != "quotes" || d.Kind != "Quote" || len(d.Hooks) != 5 || d.Bytes < 1<<20 || d.GzippedBytes >= d.Bytes || !d.Resettable || len(d.Imports) == 0 {
			t.Errorf("got %+v", d)
		}
	})
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	changed := write("changed.yaml", "apiVersion: example.com/v1\nkind: Quote\nmetadata: {name: river}\nspec: {text: Panta rhei., author: Heraclitus}\n")
	good, bad := filepath.Join(firstModule, "good.yaml"), filepath.Join(firstModule, "bad.yaml")
	tests := []struct {
		name    string
		args    []string
		code    int
		want    []string
		wantErr string
	}{
		{
			name: "a default is shown as a diff", args: []string{"--hook", "default", "--object", good},
			want: []string{"verdict   pass", "+   author: unknown\n", "    text: No man"},
		},
		{
			name: "a good one passes", args: []string{"--hook", "validateCreate", "--object", good},
			want: []string{"verdict   pass", "fuel "},
		},
		{
			name: "a bad one is refused", args: []string{"--hook", "validateCreate", "--object", bad}, code: 1,
			want: []string{"verdict   refused", "error     spec.text: Required value: a quote says something"},
		},
		{
			name: "settings", args: []string{"--hook", "validateCreate", "--object", good, "--settings", `{"banned":["river"]}`, "-o", "json"}, code: 1,
			want: []string{`"verdict": "refused"`, `"detail": "must not say river"`},
		},
		{
			name: "settings that do not fit", args: []string{"--hook", "validateCreate", "--object", good, "--settings", `{"banned":7}`}, code: 2,
			wantErr: "settings refused: banned: FieldValueTypeInvalid: a number where an array is expected",
		},
		{
			name: "an update", args: []string{"--hook", "validateUpdate", "--object", changed, "--old", good}, code: 1,
			want: []string{"error     spec.author: Forbidden: who said it does not change"},
		},
		{
			name: "fuel runs out", args: []string{"--hook", "validateCreate", "--object", good, "--fuel", "5000"}, code: 2,
			want: []string{"verdict   failed", "failure   fuel: "},
		},
		{
			name: "no old object", args: []string{"--hook", "validateUpdate", "--object", good}, code: 2,
			wantErr: "hook validateUpdate needs --old",
		},
		{
			name: "no object", args: []string{"--hook", "default"}, code: 2,
			wantErr: "hook default needs --object",
		},
		{
			name: "a hook that the module does not have", args: []string{"--hook", "canonicalize", "--object", good}, code: 2,
			wantErr: "has no hook canonicalize; it has configure, default",
		},
		{
			name: "a hook that does not exist", args: []string{"--hook", "validateCreat", "--object", good}, code: 2,
			wantErr: "canonicalize, statusPrepare, statusValidate, warningsOnCreate, warningsOnUpdate, convert, connect, admitMutate, admitValidate; did you mean validateCreate?",
		},
		{
			name: "an object that does not parse", args: []string{"--hook", "default", "--object", write("broken.yaml", "a: [")}, code: 2,
			wantErr: "--object: ",
		},
		{
			name: "an object that is not there", args: []string{"--hook", "default", "--object", filepath.Join(dir, "gone")}, code: 2,
			wantErr: "no such file",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"module", "run", file, "--cache-dir", cache}, tc.args...)
			out, code, err := weir(t, args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d (%v)", code, tc.code, err)
			}
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
	}
}

func TestModuleBuildFails(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.24\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, dir, wantErr string
	}{
		{"it is no guest", dir, "exports no function weir_abi_v1"},
		{"it is not there", filepath.Join(dir, "gone"), "no such file"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, code, err := weir(t, "module", "build", tc.dir, "-o", filepath.Join(t.TempDir(), "x.wasm"))
			if code != 2 || err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("code %d, error %v, want %q", code, err, tc.wantErr)
			}
		})
	}
}

func TestOtherKind(t *testing.T) {
	pod, err := document.Parse([]byte(`{"kind":"Pod"}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, writtenFor string
		call             host.Call
		want             string
	}{
		{"the same", "Pod", host.Call{Op: abi.OpDefault, Object: pod}, ""},
		{"another", "Quote", host.Call{Op: abi.OpDefault, Object: pod}, "Pod"},
		{"any", "", host.Call{Op: abi.OpDefault, Object: pod}, ""},
		{"a policy", "Quote", host.Call{Op: abi.OpAdmitValidate, Object: pod}, ""},
		{"no object", "Quote", host.Call{Op: abi.OpValidateDelete}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := otherKind(tc.writtenFor, &tc.call); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUnknownSubcommand(t *testing.T) {
	for _, group := range []string{"module", "policy"} {
		_, code, err := weir(t, group, "tset")
		if code != 2 || err == nil || !strings.Contains(err.Error(), `unknown command "tset"`) {
			t.Errorf("%s: code %d, %v", group, code, err)
		}
	}
}

// A backquote in the usage of a flag would stand for the type of its value.
func TestFlagUsage(t *testing.T) {
	for _, args := range [][]string{{"serve", "--help"}, {"module", "run", "--help"}} {
		out, _, err := weir(t, args...)
		for line := range strings.Lines(out) {
			if name, _, _ := strings.Cut(strings.TrimSpace(line), "  "); strings.HasPrefix(name, "-") && strings.Contains(name, " weir ") {
				t.Errorf("%v: %s", args, name)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestInspectNoModule(t *testing.T) {
	_, code, err := weir(t, "module", "inspect", filepath.Join(firstModule, "good.yaml"))
	if code != 2 || err == nil || !strings.Contains(err.Error(), "not a wasm module") {
		t.Errorf("code %d, error %v", code, err)
	}
}

func TestLineDiff(t *testing.T) {
	got := lineDiff([]string{"a", "b", "c"}, []string{"a", "x", "c", "d"})
	if want := "  a\n- b\n+ x\n  c\n+ d\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
