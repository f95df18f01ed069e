package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/build"
	"weir.dev/weir/sdk/go/weirtest"
)

// runner runs a hook: natively, or in a module.
type runner func(t *testing.T, op abi.Op, object, old, settings string) (changed string, fields []string, warnings []string)

func TestNative(t *testing.T) {
	testHooks(t, func(t *testing.T, op abi.Op, object, old, settings string) (string, []string, []string) {
		res, err := weirtest.Run(weir.For[Quote](&Strategy{}), weirtest.Call{Op: op, Object: object, OldObject: old, Settings: settings})
		if err != nil {
			t.Fatal(err)
		}
		return res.Object, fields(res.Errors), res.Warnings
	})
}

func TestModule(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quotes.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: ".", Output: file}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runtime, err := host.NewRuntime(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	// Modules of the same bytes share their code: each test loads its own, for
	// its settings, and this one keeps the code.
	module, err := runtime.Load(t.Context(), wasm, host.ModuleConfig{Name: "quotes"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := module.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := runtime.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	testHooks(t, func(t *testing.T, op abi.Op, object, old, settings string) (string, []string, []string) {
		m, err := runtime.Load(t.Context(), wasm, host.ModuleConfig{Name: "quotes", Settings: json.RawMessage(settings)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := m.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		call := &host.Call{Op: op, Object: parse(t, object)}
		if old != "" {
			call.OldObject = parse(t, old)
		}
		res, err := m.Call(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		changed := ""
		if res.Object != nil {
			changed = string(res.Object.Bytes())
		}
		return changed, fields(res.Errors), res.Warnings
	})
}

func testHooks(t *testing.T, run runner) {
	good, bad := file(t, "good.yaml"), file(t, "bad.yaml")
	by := func(author string) string {
		return fmt.Sprintf(`{"spec":{"author":%q,"text":"Hello"}}`, author)
	}
	tests := []struct {
		name                  string
		op                    abi.Op
		object, old, settings string
		want                  string
		wantFields            []string
		wantWarnings          []string
	}{
		{
			name: "an author is filled in, and tags stay", op: abi.OpDefault, object: good,
			want: `{"apiVersion":"example.com/v1","kind":"Quote","metadata":{"name":"river","namespace":"default"},"spec":{"author":"unknown","tags":["change"],"text":"No man ever steps in the same river twice."}}`,
		},
		{name: "an author stays", op: abi.OpDefault, object: by("me")},
		{name: "a good one", op: abi.OpValidateCreate, object: good},
		{name: "a bad one", op: abi.OpValidateCreate, object: bad, wantFields: []string{"spec.text"}},
		{name: "settings", op: abi.OpValidateCreate, object: good, settings: `{"banned":["twice","once","river"]}`, wantFields: []string{"spec.text", "spec.text"}},
		{name: "another author", op: abi.OpValidateUpdate, object: by("me"), old: by("you"), wantFields: []string{"spec.author"}},
		{name: "the same author", op: abi.OpValidateUpdate, object: by("me"), old: by("me")},
		{
			name: "a long one", op: abi.OpWarningsOnCreate, object: fmt.Sprintf(`{"spec":{"text":"%0300d"}}`, 0),
			wantWarnings: []string{"spec.text: longer than anyone reads"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			changed, fields, warnings := run(t, tc.op, tc.object, tc.old, tc.settings)
			if changed != tc.want {
				t.Errorf("got object %s, want %s", changed, tc.want)
			}
			if fmt.Sprint(fields) != fmt.Sprint(tc.wantFields) {
				t.Errorf("got errors of %q, want %q", fields, tc.wantFields)
			}
			if fmt.Sprint(warnings) != fmt.Sprint(tc.wantWarnings) {
				t.Errorf("got warnings %q, want %q", warnings, tc.wantWarnings)
			}
		})
	}
}

// file is a YAML file as JSON.
func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func parse(t *testing.T, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fields(errs []abi.FieldError) []string {
	var all []string
	for _, e := range errs {
		all = append(all, e.Field)
	}
	return all
}
