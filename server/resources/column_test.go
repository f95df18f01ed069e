package resources

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestTables: testdata/columns/<case>.yaml has objects of a resource and the
// row of each, the cells joined by " | ". The time is noon of 2026-01-02.
func TestTables(t *testing.T) {
	set := builtinSet(t)
	names, err := filepath.Glob("testdata/columns/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file := struct {
				Group    string `json:"group"`
				Resource string `json:"resource"`
				Version  string `json:"version"`
				Header   string `json:"header"`
				Rows     []struct {
					Object json.RawMessage `json:"object"`
					Want   string          `json:"want"`
				} `json:"rows"`
			}{}
			if err := yaml.UnmarshalStrict(data, &file); err != nil {
				t.Fatal(err)
			}
			d, ok := set.Definition(schema.GroupResource{Group: file.Group, Resource: file.Resource})
			if !ok {
				t.Fatalf("no resource %s", file.Resource)
			}
			v, ok := d.Version(file.Version)
			if !ok {
				t.Fatalf("no version %s", file.Version)
			}
			columns := v.TableColumns()
			var header []string
			for i := range columns {
				header = append(header, columns[i].Name)
			}
			if diff := cmp.Diff(file.Header, strings.Join(header, " | ")); diff != "" {
				t.Errorf("header:\n%s", diff)
			}
			for _, row := range file.Rows {
				var obj map[string]any
				if err := utiljson.Unmarshal(row.Object, &obj); err != nil {
					t.Fatal(err)
				}
				var cells []string
				for i := range columns {
					cells = append(cells, fmt.Sprint(columns[i].Cell(obj, noon)))
				}
				if diff := cmp.Diff(row.Want, strings.Join(cells, " | ")); diff != "" {
					t.Errorf("row (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestEmptyObjects: no column fails on an object that has only a name.
func TestEmptyObjects(t *testing.T) {
	for _, d := range builtinSet(t).Definitions() {
		for _, v := range d.Versions {
			for _, c := range v.TableColumns() {
				cell := c.Cell(map[string]any{"metadata": map[string]any{"name": "n"}}, noon)
				if s, ok := cell.(string); ok && strings.ContainsAny(s, "{}%") {
					t.Errorf("%s: column %s: %q", d.Resource, c.Name, s)
				}
			}
		}
	}
}

func TestTemplate(t *testing.T) {
	obj := map[string]any{
		"name": "a", "empty": "", "null": nil, "n": int64(3), "f": 1.5, "yes": true,
		"when": "2026-01-02T11:55:00Z", "end": "2026-01-02T11:57:00Z",
		"labels": map[string]any{"b": "2", "a": "1", "role/x": ""},
		"list":   []any{"z", "y", "z", nil, ""},
		"items": []any{
			map[string]any{"k": "a", "n": int64(1), "ok": true},
			map[string]any{"k": "b", "n": int64(2)},
		},
		"selector": map[string]any{
			"matchLabels":      map[string]any{"app": "web"},
			"matchExpressions": []any{map[string]any{"key": "t", "operator": "In", "values": []any{"x", "y"}}},
		},
	}
	tests := []struct{ template, want string }{
		{"text", "text"},
		{"{.name}/{.n}", "a/3"},
		{"{.none}{.empty}{.null}", ""},
		{"{.none ?? .empty ?? .null ?? 'x'}", "x"},
		{"{'it''s {it}'}", "it's {it}"},
		{"{.f},{.yes}", "1.5,true"},
		{"{.list[*]}", "z,y,z"},
		{"{.list[*] | count}", "3"},
		{"{.list | size}", "5"},
		{"{.labels | size}", "3"},
		{"{.none | size}", "0"},
		{"{.none | count}", "0"},
		{"{.items[*].n | sum}", "3"},
		{"{.items[?(@.ok==true)].k}", "a"},
		{"{.items[?(@.ok==true)] | count}", "1"},
		{"{.items[*] | each '{.k}:{.n}' | join ';'}", "a:1;b:2"},
		{"{.items[*] | each '{.k}{.ok | then ''!''}'}", "a!,b"},
		{"{.list[*] | uniq | sort}", "y,z"},
		{"{.list[*] | first}", "z"},
		{"{.list[*] | limit 2}", "z,y + 1 more..."},
		{"{.list[*] | limit 3}", "z,y,z"},
		{"{.name | map 'a' 'A'}{.n | map '1' 'one' 'many'}{.n | map '1' 'one'}", "Amany3"},
		{"{.name | map 'a' '' ?? 'gone'}", "gone"},
		{"{.labels | keys | prefix 'role/'}", "x"},
		{"{.labels | pairs}", "a=1,b=2,role/x="},
		{"{.selector | selector}", "app=web,t in (x,y)"},
		{"{.labels | selector}", "a=1,b=2,role/x="},
		{"{.when | age}", "5m"},
		{"{.when | until .end}", "2m"},
		{"{.when | until .none}", "5m"},
		{"{.name | age}", "<invalid>"},
		{"{'apps/v1' | before '/'}{'v1' | before '/'}", "apps"},
		{"{'Pod' | lower}", "pod"},
		{"{.labels['a']}", "1"},
		{"{. | size}", "12"},
		{"{.list | and .labels | size}", "8"},
		{"{.none | and .name}", "a"},
	}
	for _, tc := range tests {
		t.Run(tc.template, func(t *testing.T) {
			tmpl, err := parseTemplate(tc.template)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // evaluation must not change the object
				if got := tmpl.render(obj, noon); got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	tests := []struct{ template, want string }{
		{"{.a", "brace is not closed"},
		{"{'a}", "brace is not closed"},
		{"{}", "want one path or text"},
		{"{.a .b}", "want one path or text"},
		{"{.a ??}", "want one path or text"},
		{"{a}", `"a" is neither a path nor text`},
		{"{.a | }", "no function after |"},
		{"{.a | shout}", `function "shout" is unknown`},
		{"{.a | count 1}", "function count: wrong number of arguments: 1"},
		{"{.a | join}", "function join: wrong number of arguments: 0"},
		{"{.a | limit x}", "function limit"},
		{"{.a | each '{.b'}", "function each"},
		{"{.a[?(@.b}", `jsonPath ".a[?(@.b"`},
	}
	for _, tc := range tests {
		t.Run(tc.template, func(t *testing.T) {
			if _, err := parseTemplate(tc.template); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestJSONPathCells: cells of JSONPath columns are those that upstream's table
// convertor for custom resources makes.
func TestJSONPathCells(t *testing.T) {
	obj := map[string]any{
		"s": "text", "i": int64(7), "f": 7.9, "b": true, "null": nil,
		"list": []any{"a", "b"}, "map": map[string]any{"k": "v"},
		"date": "2026-01-02T11:00:00Z", "bad": "yesterday",
		"items":   []any{map[string]any{"n": "x"}, map[string]any{"n": "y"}},
		"a.b/c":   "dotted",
		"numbers": []any{int64(1), int64(2)},
	}
	tests := []struct {
		columnType, path string
		want             any
	}{
		{"string", ".s", "text"},
		{"string", ".i", "7"},
		{"string", ".f", "7.9"},
		{"string", ".b", "true"},
		{"string", ".list", `["a","b"]`},
		{"string", ".map", `{"k":"v"}`},
		{"string", ".none", nil},
		{"string", ".none.deeper", nil},
		{"string", ".s.deeper", nil},
		{"string", ".items[*].n", "x"},
		{"string", ".items[1].n", "y"},
		{"string", `.items[?(@.n=="y")].n`, "y"},
		{"string", ".items[9].n", nil},
		{"string", `.a\.b/c`, "dotted"},
		{"string", `['a\.b/c']`, "dotted"},
		{"integer", ".i", int64(7)},
		{"integer", ".f", int64(7)},
		{"integer", ".s", nil},
		{"integer", ".numbers[*]", int64(1)},
		{"number", ".i", 7.0},
		{"number", ".f", 7.9},
		{"boolean", ".b", true},
		{"boolean", ".s", nil},
		{"date", ".date", "60m"},
		{"date", ".bad", "<invalid>"},
		{"date", ".i", nil},
		{"date", ".none", nil},
	}
	for _, tc := range tests {
		t.Run(tc.columnType+" "+tc.path, func(t *testing.T) {
			c := Column{Name: "C", Type: tc.columnType, JSONPath: tc.path}
			if err := c.Compile(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.Cell(obj, noon)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlainPaths: paths that are walked here select what client-go selects.
func TestPlainPaths(t *testing.T) {
	obj := map[string]any{
		"a": map[string]any{"b": "x", "null": nil, "l": []any{
			map[string]any{"c": int64(1)}, map[string]any{}, map[string]any{"c": int64(2)}, map[string]any{"c": nil},
		}},
		"empty": []any{},
	}
	for _, expr := range []string{".a", ".a.b", ".a.null", ".a.b.c", ".none", ".a.l", ".a.l[*]", ".a.l[*].c", ".empty[*]", ".empty[*].x", ".none[*].x"} {
		t.Run(expr, func(t *testing.T) {
			plain, err := parsePath(expr)
			if err != nil {
				t.Fatal(err)
			}
			if plain.steps == nil {
				t.Fatal("not a plain path")
			}
			full := jsonpath.New("t").AllowMissingKeys(true)
			if err := full.Parse("{" + expr + "}"); err != nil {
				t.Fatal(err)
			}
			got, want := plain.all(obj), (&jsonPath{full: full}).all(obj)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-client-go +here):\n%s", diff)
			}
		})
	}
}

func TestCompileErrors(t *testing.T) {
	tests := []struct {
		column Column
		want   string
	}{
		{Column{Name: "C", Type: "text", JSONPath: ".a"}, `column C: type "text" is unknown`},
		{Column{Name: "C", Type: "string"}, "jsonPath or template is required"},
		{Column{Name: "C", Type: "string", JSONPath: ".a", Template: "{.a}"}, "exclude each other"},
		{Column{Name: "C", Type: "string", JSONPath: ".a[?(@"}, "jsonPath"},
	}
	for _, tc := range tests {
		t.Run(tc.want, func(t *testing.T) {
			if err := tc.column.Compile(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestCellHammer: columns are shared by requests.
func TestCellHammer(t *testing.T) {
	d, _ := builtinSet(t).Definition(schema.GroupResource{Resource: "nodes"})
	columns := d.Versions[0].TableColumns()
	obj := map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if cell := columns[1].Cell(obj, noon); cell != "Ready" {
					t.Errorf("got %v", cell)
				}
			}
		})
	}
	wg.Wait()
}

func ExampleColumn_Cell() {
	c := Column{Name: "Ready", Type: "string", Template: "{.status.ready ?? '0'}/{.spec.replicas ?? '0'}"}
	if err := c.Compile(); err != nil {
		fmt.Println(err)
		return
	}
	obj := map[string]any{"spec": map[string]any{"replicas": int64(3)}}
	fmt.Println(c.Cell(obj, time.Now()))
	// Output: 0/3
}
