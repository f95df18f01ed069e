package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir.dev/weir/sdk/build"
)

// TestModuleInit begins a module in each language, and tests, measures and
// breaks it, outside of this repository.
func TestModuleInit(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a guest of each language")
	}
	cache := t.TempDir()
	for _, language := range build.Languages() {
		t.Run(string(language), func(t *testing.T) {
			if missing := build.Missing(t.Context(), language); missing != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(missing)
				}
				t.Skip(missing)
			}
			dir := filepath.Join(t.TempDir(), "module")
			if out, code, err := weir(t, "module", "init", "my-rules", "--lang", string(language), "--dir", dir); err != nil || code != 0 || !strings.Contains(out, "weir module test") {
				t.Fatalf("init: code %d, %v: %s", code, err, out)
			}
			if _, _, err := weir(t, "module", "init", "my-rules", "--lang", string(language), "--dir", dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
				t.Errorf("a second init: %v", err)
			}
			file := filepath.Join(dir, "my-rules.wasm")
			out, code, err := weir(t, "module", "build", dir, "-o", file)
			if err != nil || code != 0 || !strings.Contains(out, "my-rules 1.0.0") {
				t.Fatalf("build: code %d, %v: %s", code, err, out)
			}
			out, code, err = weir(t, "module", "test", file, "-v", "--cache-dir", cache)
			if err != nil || code != 0 || !strings.Contains(out, "--- PASS: my-rules/two faults") || !strings.Contains(out, "20 cases") {
				t.Errorf("test: code %d, %v: %s", code, err, out)
			}
			t.Run("bench", func(t *testing.T) {
				out, code, err := weir(t, "module", "bench", file, "--run", "a good one|two faults", "--time", "20ms", "-o", "json", "--cache-dir", cache)
				if err != nil || code != 0 {
					t.Fatalf("code %d, %v: %s", code, err, out)
				}
				var got []measurement
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Fatal(err)
				}
				if len(got) != 2 || got[0].Calls == 0 || got[0].Fuel == 0 || got[0].MedianMicros <= 0 || got[0].P99Micros < got[0].MedianMicros || got[1].Fuel <= got[0].Fuel {
					t.Errorf("got %+v", got)
				}
			})
			t.Run("natively", func(t *testing.T) {
				for name, value := range map[string]string{"GOFLAGS": "", "GOWORK": "off", "GOPROXY": "off"} {
					t.Setenv(name, value)
				}
				if err := build.Native(t.Context(), dir); err != nil {
					t.Error(err)
				}
			})
			t.Run("a case that fails", func(t *testing.T) {
				cases := filepath.Join(dir, "cases", "my-rules.yaml")
				text, err := os.ReadFile(cases)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(cases, []byte(strings.Replace(string(text), "value: 11,", "value: 12,", 1)), 0o600); err != nil {
					t.Fatal(err)
				}
				out, code, err := weir(t, "module", "test", file, "--cache-dir", cache)
				if err != nil || code != 1 {
					t.Errorf("code %d, %v", code, err)
				}
				for _, want := range []string{"--- FAIL: my-rules/too many replicas (", `missing error: {"type":"FieldValueInvalid","field":"spec.replicas","value":12`, "FAIL\t", "1 of 20 cases"} {
					if !strings.Contains(out, want) {
						t.Errorf("no %q in:\n%s", want, out)
					}
				}
			})
		})
	}
}

func TestModuleInitRefuses(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		wantErr string
	}{
		{"a name with capitals", []string{"Rules"}, "use lower-case letters"},
		{"the name of the SDK's directory", []string{"weir"}, "use lower-case letters"},
		{"a language there is none of", []string{"rules", "--lang", "cobol"}, "give go, assemblyscript, c or rust"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			args := append([]string{"module", "init", "--dir", filepath.Join(t.TempDir(), "x")}, tc.args...)
			if _, _, err := weir(t, args...); err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
		})
	}
}
