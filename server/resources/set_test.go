package resources

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func builtinSet(t testing.TB) *Set {
	t.Helper()
	set, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestAddKind: to add a built-in kind is to add files.
func TestAddKind(t *testing.T) {
	set, err := Load(BuiltinFS(), os.DirFS("testdata/extra"))
	if err != nil {
		t.Fatal(err)
	}
	d, ok := set.Definition(schema.GroupResource{Group: "rivers.example.com", Resource: "gauges"})
	if !ok {
		t.Fatal("gauges are not there")
	}
	if d.Singular != "gauge" || d.ListKind != "GaugeList" || d.StorageVersion != "v1" || d.StoragePrefix != "rivers.example.com/gauges" {
		t.Errorf("not complete: %+v", d)
	}
	v, ok := d.Version("v1")
	if !ok || v.SchemaName != "com.example.rivers.v1.Gauge" {
		t.Fatalf("version: %+v", v)
	}
	wantFields := []SelectableField{
		{Name: "spec.river", Path: "spec.river"},
		{Name: "dry", Path: "status.dry", Default: "false"},
	}
	if diff := cmp.Diff(wantFields, v.SelectableFields); diff != "" {
		t.Errorf("selectable fields:\n%s", diff)
	}
	if i := slices.IndexFunc(d.Rules, func(r DefaultRule) bool { return r.Path == "spec.template.spec.containers[*].imagePullPolicy" }); i < 0 {
		t.Errorf("rules of the set are not there: %+v", d.Rules)
	}
	if last := d.Rules[len(d.Rules)-1]; last.Path != "spec.alarm" {
		t.Errorf("own rules do not come last: %+v", last)
	}

	gv := schema.GroupVersion{Group: "rivers.example.com", Version: "v1"}
	if !slices.Contains(set.GroupVersions(), gv) {
		t.Errorf("group version %s is not there", gv)
	}
	schemas, err := set.GroupVersionSchemas(gv)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		v.SchemaName, v.ListSchemaName(d.ListKind), scaleModel,
		"io.k8s.api.core.v1.Container", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
	} {
		if schemas[name] == nil {
			t.Errorf("OpenAPI lacks %s", name)
		}
	}

	obj := map[string]any{"spec": map[string]any{
		"river":    "Aare",
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "b"}}}},
	}}
	if errs := defaultAndValidate(t, set, v.SchemaName, obj); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	spec := obj["spec"].(map[string]any)
	if spec["unit"] != "m" || spec["template"].(map[string]any)["spec"].(map[string]any)["dnsPolicy"] != "ClusterFirst" {
		t.Errorf("defaults: %v", obj)
	}
	if errs := defaultAndValidate(t, set, v.SchemaName, map[string]any{}); len(errs) != 1 || errs[0].Field != "spec.river" {
		t.Errorf("required: %v", errs)
	}
}

// TestPacksAreCompiled: packs.json is what go generate makes of packs/.
func TestPacksAreCompiled(t *testing.T) {
	names, err := filepath.Glob("packs/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pack, err := yaml.YAMLToJSONStrict(data)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, string(pack))
	}
	got, err := os.ReadFile("packs.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "[\n"+strings.Join(want, ",\n")+"\n]\n" {
		t.Error("packs.json is stale: run go generate ./server/resources")
	}
}

// TestOverlayNames: every overlay is of a type that its package has.
// TestStatusMetadata: a write of a status takes of metadata what upstream's strategies of v1.37 do, nothing where they call
// ResetObjectMetaForStatus, as new kinds are to.
func TestStatusMetadata(t *testing.T) {
	all := []string{"annotations", "finalizers", "labels", "ownerReferences"}
	want := map[string][]string{
		"validatingadmissionpolicies": nil, "mutatingadmissionpolicies": nil, "servicecidrs": nil, "volumeattachments": nil,
		"modules": nil, "strategies": nil, "policies": nil, "policybindings": nil,
		"deployments": {"annotations", "finalizers", "ownerReferences"}, "pods": {"annotations", "finalizers", "labels"},
	}
	for _, name := range []string{
		"replicasets", "statefulsets", "daemonsets", "horizontalpodautoscalers", "jobs", "cronjobs", "certificatesigningrequests",
		"namespaces", "services", "nodes", "persistentvolumes", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas",
		"ingresses", "poddisruptionbudgets", "customresourcedefinitions",
	} {
		want[name] = all
	}
	got := map[string][]string{}
	for _, d := range builtinSet(t).Definitions() {
		for i := range d.Versions {
			if v := &d.Versions[i]; v.Status {
				got[d.Resource] = v.StatusMetadata
			} else if v.StatusMetadata != nil {
				t.Errorf("%s has no status", d.Resource)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOverlayNames(t *testing.T) {
	set := builtinSet(t)
	names, err := fs.Glob(BuiltinFS(), "overlays/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		pkg := strings.TrimSuffix(filepath.Base(name), ".yaml")
		overlays, err := readOverlays([]fs.FS{BuiltinFS()}, pkg)
		if err != nil {
			t.Fatal(err)
		}
		for typeName := range overlays {
			if _, err := set.ValidationSchema(pkg + "." + typeName); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOpenAPI: the schemas of every group version are complete and marked.
func TestOpenAPI(t *testing.T) {
	set := builtinSet(t)
	for _, gv := range set.GroupVersions() {
		schemas, err := set.GroupVersionSchemas(gv)
		if err != nil {
			t.Errorf("%s: %v", gv, err)
		}
		for name, s := range schemas {
			for _, ref := range appendRefs(nil, s) {
				if schemas[ref] == nil {
					t.Errorf("%s: %s refers to %s", gv, name, ref)
				}
			}
		}
	}
	for _, d := range set.Definitions() {
		for _, v := range d.Versions {
			s, err := set.Schema(v.SchemaName)
			if err != nil {
				t.Errorf("%s: %v", d.GroupResource(), err)
				continue
			}
			gvks, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any)
			want := []any{map[string]any{"group": d.Group, "version": v.Name, "kind": d.Kind}}
			if diff := cmp.Diff(want, gvks); diff != "" {
				t.Errorf("%s:\n%s", v.SchemaName, diff)
			}
		}
	}
}

func TestLoadErrors(t *testing.T) {
	tests := []struct{ name, pack, want string }{
		{"unknown field", "group: a\nvariants: []\n", `unknown field "variants"`},
		{"no kind", "group: a\nversions: [v1]\nresources: [{resource: as, versions: [{name: v1}]}]", "resource and kind are required"},
		{"no versions", "group: a\nresources: [{resource: as, kind: A}]", "resource as: no versions"},
		{"foreign version", "group: a\nversions: [v1]\nresources: [{resource: as, kind: A, versions: [{name: v2}]}]", `version "v2" is not one of the group`},
		{"storage version", "group: a\nversions: [v1]\nresources: [{resource: as, kind: A, storageVersion: v2, versions: [{name: v1}]}]", `no storage version "v2"`},
		{"rule set", "group: a\nversions: [v1]\nresources: [{resource: as, kind: A, use: [{set: x}], versions: [{name: v1}]}]", `no rule set "x"`},
		{"column", "group: a\nversions: [v1]\nresources: [{resource: as, kind: A, versions: [{name: v1, columns: [{name: X, type: string, template: '{.a'}]}]}]", `column X: template "{.a": brace is not closed`},
		{"twice", "group: a\nversions: [v1]\nresources: [{resource: as, kind: A, versions: [{name: v1}]}, {resource: as, kind: A, versions: [{name: v1}]}]", "as.a is defined twice"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "packs"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "packs", "a.yaml"), []byte(tc.pack), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Load(os.DirFS(dir))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestIndexSchemas(t *testing.T) {
	const a, b = `{"type":"object"}`, `{"type":"string","x":{}}`
	tests := []struct{ name, file string }{
		{"a line each", "{\n\"p.A\":" + a + ",\n\"p.B\":" + b + "\n}\n"},
		{"one line", `{"p.A":` + a + `,"p.B":` + b + `}`},
		{"indented", "{\n  \"p.A\": " + a + ",\n  \"p.B\": " + b + "\n}"},
		{"lines broken", "{\n\"p.A\":" + a + ",\n\"p.B\":\n" + b + "\n}\n"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			index, err := indexSchemas([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if len(index) != 2 || string(index["p.A"]) != a || string(index["p.B"]) != b {
				t.Errorf("got %s", index)
			}
		})
	}
	if _, err := indexSchemas([]byte("{\n\"p.A\":{\n")); err == nil {
		t.Error("a broken file is accepted")
	}
}
