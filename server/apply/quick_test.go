package apply

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"weir.dev/weir/abi/document"
)

// quickTypes have every form of a list and map.
func quickTypes() *Types {
	return NewTypes(func() (map[string]*spec.Schema, error) {
		scalar := func(name string) spec.Schema {
			return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{name}}}
		}
		object := func(properties map[string]spec.Schema) spec.Schema {
			return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
		}
		list := func(item spec.Schema, kind string, keys ...any) spec.Schema {
			s := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"array"}, Items: &spec.SchemaOrArray{Schema: &item}}}
			s.AddExtension("x-kubernetes-list-type", kind)
			if len(keys) > 0 {
				s.AddExtension("x-kubernetes-list-map-keys", keys)
			}
			return s
		}
		entries := func(kind string) spec.Schema {
			text := scalar("string")
			s := spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"},
				AdditionalProperties: &spec.SchemaOrBool{Allows: true, Schema: &text}}}
			s.AddExtension("x-kubernetes-map-type", kind)
			return s
		}
		protocol := scalar("string")
		protocol.Default = "TCP"
		anything := spec.Schema{}
		anything.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		intOrString := spec.Schema{}
		intOrString.AddExtension("x-kubernetes-int-or-string", true)
		root := object(map[string]spec.Schema{
			"apiVersion": scalar("string"), "kind": scalar("string"),
			"metadata": object(map[string]spec.Schema{"name": scalar("string"), "uid": scalar("string"), "resourceVersion": scalar("string"),
				"generation": scalar("integer"), "labels": entries("granular"), "managedFields": anything}),
			"spec": object(map[string]spec.Schema{
				"text": scalar("string"), "number": scalar("number"), "flag": scalar("boolean"), "either": intOrString,
				"map": entries("granular"), "whole": entries("atomic"), "any": anything,
				"set": list(scalar("string"), "set"), "numbers": list(scalar("integer"), "set"), "list": list(scalar("string"), "atomic"),
				"ports": list(object(map[string]spec.Schema{"port": scalar("integer"), "protocol": protocol, "name": scalar("string")}),
					"map", "protocol", "port"),
				"nested": object(map[string]spec.Schema{"a": scalar("string"), "b": object(map[string]spec.Schema{"c": scalar("number")})}),
			}),
			"status": object(map[string]spec.Schema{"phase": scalar("string")}),
		})
		root.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": thing.Group, "version": thing.Version, "kind": thing.Kind}})
		return map[string]*spec.Schema{"thing": &root}, nil
	}, false)
}

// randomSpec returns the JSON of a spec; few of its values differ from one to the next.
func randomSpec(r *rand.Rand, odd bool) string {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	out, comma := "{", ""
	add := func(name string, values ...string) {
		if r.IntN(12) > 0 {
			out += fmt.Sprintf("%s%q:%s", comma, name, pick(values...))
			comma = ","
		}
	}
	add("text", `"a"`, `"a"`, `"b"`)
	add("number", "1", "1", "2", "-0")
	add("flag", "true", "true", "false")
	add("either", "1", `"x"`)
	add("map", `{"k":"1","l/m":"2"}`, `{"k":"1","l/m":"2"}`, `{"k":"3","l/m":"2"}`, `{}`)
	add("whole", `{"k":"1"}`, `{"k":"1"}`, `{"k":"2"}`)
	add("set", `["a","b b"]`, `["a","b b"]`, `["b b","a"]`)
	add("numbers", `[10,9]`)
	add("list", `["a"]`, `["a"]`, `["b","b"]`)
	add("ports", `[{"port":80,"protocol":"TCP","name":"x"},{"port":9,"protocol":"TCP"}]`,
		`[{"port":80,"protocol":"TCP","name":"x"},{"port":9,"protocol":"TCP"}]`,
		`[{"port":80,"protocol":"TCP","name":"y"},{"port":9,"protocol":"TCP"}]`)
	add("nested", `{"a":"x","b":{"c":1}}`, `{"a":"x","b":{"c":1}}`, `{"a":"x","b":{"c":2}}`)
	if odd && r.IntN(3) == 0 {
		add("any", `{"x":{"y":[1]}}`, `[1,{"a":2}]`, `"s"`)
		add("number", "1.0", "1.5")
		add("set", `["é","\""]`, `["a","a"]`, `[]`)
		add("either", "null")
		add("map", `{"\"":"1"}`, `{"é":"2"}`)
		add("ports", `[{"port":80}]`, `[{"port":80,"protocol":"TCP"},{"port":80,"protocol":"TCP"}]`, `[{"port":9,"protocol":"TCP"},{"port":80,"protocol":"TCP"}]`)
		add("unknown", "1")
	}
	return out + "}"
}

var times = regexp.MustCompile(`"time":"[^"]*"`)

// at moves all changes to one time, or with r to later and later ones.
func at(t *testing.T, d *document.Document, r *rand.Rand) *document.Document {
	t.Helper()
	second := 0
	return parse(t, times.ReplaceAllStringFunc(string(d.Bytes()), func(string) string {
		if r != nil {
			second += r.IntN(3)
		}
		return fmt.Sprintf(`"time":"2026-01-01T00:00:%02dZ"`, second)
	}))
}

// TestQuick compares the quick ways with the library's, on objects that several managers write one after the other.
func TestQuick(t *testing.T) {
	var quick, slow [3]int
	within := func(seed uint64) bool { return seed >= 120 } // with a field of metadata that is reset
	for seed := range uint64(160) {
		r := rand.New(rand.NewPCG(seed, 3))
		tracker := newTracker(t, func(c *Config) {
			c.Types = quickTypes()
			if seed%2 == 0 {
				c.Reset = []string{"status"}
			}
			if within(seed) {
				c.Reset = []string{"metadata.labels"}
			}
		})
		if err := tracker.init(); err != nil || tracker.root == nil {
			t.Fatal(err)
		}
		odd := seed%3 == 0
		object := func(meta, more string) *document.Document {
			// Of a name that randomSpec gives twice the last counts.
			d, _, err := document.Ingest(fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":%s,"spec":%s%s}`, meta, randomSpec(r, odd), more), document.IngestOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		var live *document.Document
		for step := range 10 {
			manager := []string{"one", "one", "one", "two"}[r.IntN(4)]
			var fast, want *document.Document
			var ok bool
			var err error
			way := 0
			var input *document.Document
			switch {
			case live == nil:
				input = object(`{"name":"a","labels":{"x":"y"}}`, []string{"", `,"status":{"phase":"x"}`}[r.IntN(2)])
				fast, ok = tracker.quickUpdate(nil, input, manager)
				want, err = tracker.slowUpdate(nil, input, manager)
			case r.IntN(2) == 0:
				way = 1
				base := live
				if r.IntN(3) == 0 {
					base, _ = live.Edit().Delete("metadata", "managedFields").Document()
				}
				edit := base.Edit().Set(fmt.Sprint(step), "metadata", "resourceVersion").Set(r.IntN(2), "metadata", "generation")
				changed := object(`{"name":"a"}`, "")
				for name, v := range changed.Get("spec").Members() {
					if r.IntN(3) == 0 && (odd || live.Get("spec", name).Exists()) {
						edit.Set(v, "spec", name)
					}
				}
				if r.IntN(4) == 0 {
					edit.Set("y", "status", "phase")
				}
				if within(seed) && step%2 == 0 {
					edit.Set(fmt.Sprint(step%3), "metadata", "labels", []string{"x", "z"}[step/2%2])
				}
				if input, err = edit.Document(); err != nil {
					t.Fatal(err)
				}
				fast, ok = tracker.quickUpdate(live, input, manager)
				want, err = tracker.slowUpdate(live, input, manager)
			default:
				way = 2
				input = object([]string{`{"name":"a"}`, `{"name":"a","labels":{"x":"y"}}`, `{}`}[r.IntN(3)], "")
				fast, ok = tracker.quickApply(live, input, manager)
				want, err = tracker.slowApply(live, input, manager, true)
				if again, twice := tracker.quickApply(live, live, manager); twice && again != live {
					t.Fatal("a configuration with managedFields is applied")
				}
			}
			if !ok {
				slow[way]++
			} else {
				quick[way]++
				if err != nil {
					t.Fatalf("seed %d: accepted, the library says %v\nlive %s\ninput %s", seed, err, live.Bytes(), input.Bytes())
				}
				// The library stamps what it has written in the same second, or the next.
				if a, b := at(t, fast, nil), at(t, want, nil); !bytes.Equal(a.Bytes(), b.Bytes()) {
					t.Fatalf("seed %d, way %d: manager %s\nlive  %s\ninput %s\ngot   %s\nwant  %s", seed, way, manager, live.Bytes(), input.Bytes(), a.Bytes(), b.Bytes())
				}
			}
			if err == nil {
				live = at(t, want, r)
				// Half of the time the same is written again.
				if way == 2 && r.IntN(2) == 0 {
					fast, ok := tracker.quickApply(live, input, manager)
					want, err := tracker.slowApply(live, input, manager, true)
					if ok && (err != nil || !bytes.Equal(at(t, fast, nil).Bytes(), at(t, want, nil).Bytes())) {
						t.Fatalf("seed %d: applied again: got %s\nwant %s, %v", seed, fast.Bytes(), want.Bytes(), err)
					}
					if ok {
						quick[way]++
					}
				}
			}
		}
	}
	for way, n := range quick {
		if n < 50 {
			t.Errorf("way %d: only %d of %d are quick: the test says little", way, n, n+slow[way])
		}
	}
	t.Logf("quick %v, left to the library %v", quick, slow)
}
