package resources

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// ruleEngine is the plainest engine of DefaultRule: the reference for the one
// that serves requests.
type ruleEngine struct{ env *celgo.Env }

func newRuleEngine(t *testing.T) ruleEngine {
	t.Helper()
	env, err := celgo.NewEnv(
		celgo.Variable("object", celgo.DynType),
		celgo.Variable("base", celgo.DynType),
		celgo.Variable("item", celgo.DynType),
		ext.Strings(),
	)
	if err != nil {
		t.Fatal(err)
	}
	return ruleEngine{env}
}

func (e ruleEngine) compile(t *testing.T, expr string) celgo.Program {
	t.Helper()
	ast, issues := e.env.Compile(expr)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expr, issues.Err())
	}
	program, err := e.env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func (e ruleEngine) eval(t *testing.T, expr string, vars map[string]any) any {
	t.Helper()
	out, _, err := e.compile(t, expr).Eval(vars)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	raw, err := out.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		t.Fatal(err)
	}
	data, err := raw.(*structpb.Value).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := utiljson.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

func (e ruleEngine) apply(t *testing.T, rule DefaultRule, obj map[string]any) {
	t.Helper()
	base := any(obj)
	if rule.Base != "" {
		steps, ok := plainSteps("." + rule.Base)
		if !ok {
			t.Fatalf("base %q", rule.Base)
		}
		bases := walk(nil, obj, steps)
		if len(bases) != 1 {
			return
		}
		base = bases[0]
	}
	parents, name := []any{obj}, rule.Path
	if i := strings.LastIndexByte(rule.Path, '.'); i >= 0 {
		steps, ok := plainSteps("." + rule.Path[:i])
		if !ok {
			t.Fatalf("path %q", rule.Path)
		}
		parents, name = walk(nil, obj, steps), rule.Path[i+1:]
	}
	for _, parent := range parents {
		item, ok := parent.(map[string]any)
		if !ok {
			continue
		}
		old := item[name]
		if old != nil && !rule.Merge {
			continue
		}
		vars := map[string]any{"object": obj, "base": base, "item": item}
		if rule.When != "" && e.eval(t, rule.When, vars) != true {
			continue
		}
		value := e.eval(t, rule.Value, vars)
		if merged, ok := old.(map[string]any); ok && rule.Merge {
			for key, v := range value.(map[string]any) {
				if _, ok := merged[key]; !ok {
					merged[key] = v
				}
			}
			continue
		}
		item[name] = value
	}
}

// TestRulesCompile: the rules of every resource compile, and their paths are
// those of the schema.
func TestRulesCompile(t *testing.T) {
	set, engine := builtinSet(t), newRuleEngine(t)
	for _, d := range set.Definitions() {
		for _, rule := range d.Rules {
			engine.compile(t, rule.Value)
			if rule.When != "" {
				engine.compile(t, rule.When)
			}
			v, _ := d.Version(d.StorageVersion)
			s, err := set.Schema(v.SchemaName)
			if err != nil {
				t.Fatal(err)
			}
			closure, err := set.SchemaClosure(v.SchemaName)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{rule.Path, rule.Base} {
				at := s
				for part := range strings.SplitSeq(path, ".") {
					if path == "" {
						break
					}
					name, each := strings.CutSuffix(part, "[*]")
					prop, ok := at.Properties[name]
					if !ok {
						t.Errorf("%s: path %s: no field %s", d.Resource, path, name)
						break
					}
					at = &prop
					if each {
						at = at.Items.Schema
					}
					if len(at.AllOf) == 1 {
						at = &at.AllOf[0]
					}
					if ref, ok := refName(at); ok {
						at = closure[ref]
					}
				}
			}
		}
	}
}

// TestRules: testdata/rules/<case>.yaml has a resource, an object and, by path,
// the values that schema defaults and then rules give it,
// null when nothing is there.
func TestRules(t *testing.T) {
	set, engine := builtinSet(t), newRuleEngine(t)
	names, err := filepath.Glob("testdata/rules/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tc := struct {
				Group    string            `json:"group"`
				Resource string            `json:"resource"`
				Object   json.RawMessage   `json:"object"`
				Want     map[string]string `json:"want"`
			}{}
			if err := yaml.UnmarshalStrict(data, &tc); err != nil {
				t.Fatal(err)
			}
			d, ok := set.Definition(schema.GroupResource{Group: tc.Group, Resource: tc.Resource})
			if !ok {
				t.Fatalf("no resource %s", tc.Resource)
			}
			var obj map[string]any
			if err := utiljson.Unmarshal(tc.Object, &obj); err != nil {
				t.Fatal(err)
			}
			v, _ := d.Version(d.StorageVersion)
			if errs := defaultAndValidate(t, set, v.SchemaName, obj); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			for _, rule := range d.Rules {
				engine.apply(t, rule, obj)
			}
			if errs := defaultAndValidate(t, set, v.SchemaName, obj); len(errs) > 0 {
				t.Error(errs.ToAggregate())
			}
			got := map[string]string{}
			for path := range tc.Want {
				p, err := parsePath("." + path)
				if err != nil {
					t.Fatal(err)
				}
				values, err := json.Marshal(p.all(obj))
				if err != nil {
					t.Fatal(err)
				}
				got[path] = string(values)
			}
			if diff := cmp.Diff(tc.Want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
