package endpoints

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"weir.dev/weir/server/rest"
)

func TestCreateGetListUpdateDelete(t *testing.T) {
	w := newWorld(t, Config{})

	created := w.do(t, "POST", widgetsPath, widget("a", `{"color":"red","big":9007199254740993}`))
	if created.code != 201 {
		t.Fatalf("create: %d %s", created.code, created.body)
	}
	if got := created.get(t, "spec", "big"); got != "9007199254740993" {
		t.Errorf("big = %s", got)
	}
	if got := created.get(t, "spec", "replicas"); got != "1" {
		t.Errorf("replicas = %s, want the default", got)
	}
	if got := created.get(t, "metadata", "namespace"); got != "default" {
		t.Errorf("namespace = %s", got)
	}
	if got := created.document(t).Get("metadata", "managedFields").Index(0).Get("manager").String(); got != "tester" {
		t.Errorf("manager = %s", got)
	}
	if again := w.do(t, "POST", widgetsPath, widget("a", `{}`)); again.code != 409 || again.get(t, "reason") != "AlreadyExists" {
		t.Errorf("create again: %d %s", again.code, again.body)
	}

	got := w.do(t, "GET", widgetsPath+"/a", "")
	if got.code != 200 || got.body != created.body {
		t.Errorf("get: %d %s, want %s", got.code, got.body, created.body)
	}
	missing := w.do(t, "GET", widgetsPath+"/b", "")
	if missing.code != 404 || missing.get(t, "message") != `widgets.example.com "b" not found` {
		t.Errorf("get missing: %d %s", missing.code, missing.body)
	}

	list := w.do(t, "GET", "/apis/example.com/v1/widgets", "")
	want := `{"apiVersion":"example.com/v1","items":[` + strings.TrimSpace(created.body) + `],"kind":"WidgetList","metadata":{"resourceVersion":"101"}}` + "\n"
	if list.code != 200 || list.body != want {
		t.Errorf("list:\n%s\nwant\n%s", list.body, want)
	}
	empty := w.do(t, "GET", "/apis/example.com/v1/namespaces/other/widgets", "")
	if !strings.Contains(empty.body, `"items":[]`) {
		t.Errorf("empty list: %s", empty.body)
	}

	updated := w.do(t, "PUT", widgetsPath+"/a", strings.Replace(created.body, `"red"`, `"blue"`, 1))
	if updated.code != 200 || updated.get(t, "spec", "color") != "blue" {
		t.Errorf("update: %d %s", updated.code, updated.body)
	}
	stale := w.do(t, "PUT", widgetsPath+"/a", created.body)
	if stale.code != 409 {
		t.Errorf("stale update: %d %s", stale.code, stale.body)
	}

	deleted := w.do(t, "DELETE", widgetsPath+"/a", "")
	if deleted.code != 200 || deleted.get(t, "status") != "Success" || deleted.get(t, "details", "uid") != "uid-a" || deleted.get(t, "details", "kind") != "widgets" {
		t.Errorf("delete: %d %s", deleted.code, deleted.body)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, Config{MaxRequestBodyBytes: 4 << 10})
	w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`))
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 9) + "]\n"
	}
	tests := []struct {
		name, method, path, body string
		headers                  []string
		code                     int
		message                  string
	}{
		{"malformed JSON", "POST", widgetsPath, `{"a":`, nil, 400, "the object provided is unrecognized (must be of type Widget)"},
		{"trailing comma", "POST", widgetsPath, `{"kind":"Widget",}`, nil, 400, "unrecognized"},
		{"an array", "POST", widgetsPath, `[]`, nil, 400, "unrecognized"},
		{"empty body", "POST", widgetsPath, ``, nil, 400, "<empty>"},
		{"no kind", "POST", widgetsPath, `{"apiVersion":"example.com/v1"}`, nil, 400, "Object 'Kind' is missing"},
		{"other kind", "POST", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Gadget"}`, nil, 400, `no kind "Gadget" is registered`},
		{"other version", "POST", widgetsPath, `{"apiVersion":"example.com/v2","kind":"Widget"}`, nil, 400, "the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"},
		{"served kind of another path", "POST", widgetsPath, `{"apiVersion":"v1","kind":"Pod"}`, nil, 400, "cannot be handled as a Widget"},
		{"namespace mismatch", "POST", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x","namespace":"y"}}`, nil, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"name mismatch", "PUT", widgetsPath + "/b", widget("a", `{}`), nil, 400, "the name of the object (a) does not match the name on the URL (b)"},
		{"no name", "PUT", widgetsPath + "/b", `{"apiVersion":"example.com/v1","kind":"Widget"}`, nil, 400, "name must be provided"},
		{"strict", "POST", widgetsPath + "?fieldValidation=Strict", widget("s", `{"foo":1,"color":"a","color":"b"}`), nil, 400, `strict decoding error: duplicate field "spec.color", unknown field "spec.foo"`},
		{"bad fieldValidation", "POST", widgetsPath + "?fieldValidation=Loose", widget("s", `{}`), nil, 422, "fieldValidation"},
		{"bad dryRun", "POST", widgetsPath + "?dryRun=Some", widget("s", `{}`), nil, 422, "dryRun"},
		{"long fieldManager", "POST", widgetsPath + "?fieldManager=" + strings.Repeat("m", 129), widget("s", `{}`), nil, 422, "fieldManager"},
		{"too large", "POST", widgetsPath, widget("s", `{"color":"`+strings.Repeat("x", 5<<10)+`"}`), nil, 413, "limit is 4096"},
		{"protobuf body", "POST", widgetsPath, "k8s", []string{"Content-Type: application/vnd.kubernetes.protobuf"}, 415, "application/json"},
		{"unknown content type", "POST", widgetsPath, "x", []string{"Content-Type: text/html"}, 415, "accepted media types"},
		{"alias bomb", "POST", widgetsPath, bomb, []string{"Content-Type: application/yaml"}, 400, "yaml"},
		{"deep", "POST", widgetsPath, strings.Repeat("[", 4000), nil, 400, "unrecognized"},
		{"PUT of a collection", "PUT", widgetsPath, widget("a", `{}`), nil, 405, "does not allow this method"},
		{"PATCH of a collection", "PATCH", widgetsPath, `{}`, []string{"Content-Type: application/merge-patch+json"}, 405, "does not allow this method"},
		{"protobuf only", "GET", widgetsPath + "/a", "", []string{"Accept: application/vnd.kubernetes.protobuf"}, 406, "only the following media types are accepted"},
		{"unknown group", "GET", "/apis/nope.io/v1/things", "", nil, 404, "could not find the requested resource"},
		{"unknown version", "GET", "/apis/example.com/v9/widgets", "", nil, 404, "could not find the requested resource"},
		{"unknown subresource", "GET", widgetsPath + "/a/scale", "", nil, 404, "could not find the requested resource"},
		{"cluster path of a namespaced object", "GET", "/apis/example.com/v1/widgets/a", "", nil, 404, "could not find the requested resource"},
		{"namespaced path of a cluster resource", "GET", "/api/v1/namespaces/x/namespaces/y", "", nil, 404, "could not find the requested resource"},
		{"verb of a subresource", "POST", widgetsPath + "/a/status", widget("a", `{}`), nil, 405, "is not supported on resources of kind"},
		{"dots for a name", "GET", "/apis/example.com/v1/namespaces/%2e%2e/widgets/a", "", nil, 400, "may not be '..'"},
		{"field selector", "GET", widgetsPath + "?fieldSelector=spec.size=1", "", nil, 400, "field label not supported: spec.size"},
		{"match without version", "GET", widgetsPath + "?resourceVersionMatch=Exact", "", nil, 422, "resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"strategic on custom", "PATCH", widgetsPath + "/a", `{}`, []string{"Content-Type: application/strategic-merge-patch+json"}, 415, "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"},
		{"JSON patch malformed", "PATCH", widgetsPath + "/a", `{`, []string{"Content-Type: application/json-patch+json"}, 400, "invalid JSON patch"},
		{"JSON patch not a list", "PATCH", widgetsPath + "/a", `{}`, []string{"Content-Type: application/json-patch+json"}, 400, ""},
		{"JSON patch inapplicable", "PATCH", widgetsPath + "/a", `[{"op":"remove","path":"/spec/none"}]`, []string{"Content-Type: application/json-patch+json"}, 422, ""},
		{"JSON patch test", "PATCH", widgetsPath + "/a", `[{"op":"test","path":"/spec/color","value":"x"}]`, []string{"Content-Type: application/json-patch+json"}, 422, ""},
		{"patch to a scalar", "PATCH", widgetsPath + "/a", `[{"op":"replace","path":"","value":1}]`, []string{"Content-Type: application/json-patch+json"}, 422, ""},
		{"patch of the name", "PATCH", widgetsPath + "/a", `{"metadata":{"name":"b"}}`, []string{"Content-Type: application/merge-patch+json"}, 400, "does not match the name on the URL"},
		{"patch missing", "PATCH", widgetsPath + "/none", `{}`, []string{"Content-Type: application/merge-patch+json"}, 404, "not found"},
		{"patch strict", "PATCH", widgetsPath + "/a?fieldValidation=Strict", `{"spec":{"foo":1}}`, []string{"Content-Type: application/merge-patch+json"}, 422, `unknown field \"spec.foo\"`},
		{"apply without manager", "PATCH", widgetsPath + "/a", widget("a", `{}`), []string{"Content-Type: application/apply-patch+yaml"}, 422, "is required for apply patch"},
		{"apply other version", "PATCH", widgetsPath + "/a?fieldManager=m", `{"apiVersion":"example.com/v2","kind":"Widget"}`, []string{"Content-Type: application/apply-patch+yaml"}, 400, "Incorrect version specified in apply patch"},
		{"apply conflict", "PATCH", widgetsPath + "/a?fieldManager=m", widget("a", `{"color":"green"}`), []string{"Content-Type: application/apply-patch+yaml"}, 409, "conflict"},
		{"delete options of another kind", "DELETE", widgetsPath + "/a", `{"apiVersion":"v1","kind":"Pod"}`, nil, 400, "no kind"},
		{"delete with bad policy", "DELETE", widgetsPath + "/a?propagationPolicy=Sideways", "", nil, 422, "propagationPolicy"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := w.do(t, tc.method, tc.path, tc.body, tc.headers...)
			if got.code != tc.code {
				t.Fatalf("code %d, want %d: %s", got.code, tc.code, got.body)
			}
			if got.get(t, "kind") != "Status" || got.get(t, "code") != itoa(tc.code) {
				t.Errorf("no Status: %s", got.body)
			}
			if message := got.get(t, "message"); !strings.Contains(message, tc.message) && !strings.Contains(got.body, tc.message) {
				t.Errorf("message %q, want %q in it", message, tc.message)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	w := newWorld(t, Config{})
	got := w.do(t, "POST", widgetsPath, widget("a", `{"foo":1,"color":"a","color":"b"}`))
	if got.code != 201 || got.get(t, "spec", "color") != "b" || got.document(t).Get("spec", "foo").Exists() {
		t.Errorf("stored: %d %s", got.code, got.body)
	}
	want := []string{`299 - "duplicate field \"spec.color\""`, `299 - "unknown field \"spec.foo\""`}
	if have := got.header["Warning"]; len(have) != 2 || have[0] != want[0] || have[1] != want[1] {
		t.Errorf("warnings %q, want %q", have, want)
	}
	ignored := w.do(t, "POST", widgetsPath+"?fieldValidation=Ignore", widget("b", `{"foo":1}`))
	if ignored.code != 201 || len(ignored.header["Warning"]) != 0 {
		t.Errorf("ignored: %d %q", ignored.code, ignored.header["Warning"])
	}
	old := w.do(t, "GET", "/apis/example.com/v2/namespaces/default/widgets", "")
	if have := old.header.Get("Warning"); have != `299 - "example.com/v2 Widget is old"` {
		t.Errorf("deprecation: %q", have)
	}
}

func TestYAML(t *testing.T) {
	w := newWorld(t, Config{})
	body := "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: y\nspec:\n  color: red\n  color: blue\n"
	got := w.do(t, "POST", widgetsPath, body, "Content-Type: application/yaml", "Accept: application/yaml")
	if got.code != 201 || got.header.Get("Content-Type") != "application/yaml" || !strings.Contains(got.body, "color: blue\n") {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if have := got.header.Get("Warning"); have != `299 - "line 7: key \"color\" already set in map"` {
		t.Errorf("warning %q", have)
	}
	strict := w.do(t, "POST", widgetsPath+"?fieldValidation=Strict", body, "Content-Type: application/yaml")
	if strict.code != 400 || !strings.Contains(strict.get(t, "message"), "strict decoding error: yaml: unmarshal errors:\n  line 7: key \"color\" already set in map") {
		t.Errorf("strict: %d %s", strict.code, strict.body)
	}
}

func TestVersions(t *testing.T) {
	w := newWorld(t, Config{})
	v2 := "/apis/example.com/v2/namespaces/default/widgets"
	body := `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"colour":"red"}}`
	created := w.do(t, "POST", v2, body)
	if created.code != 201 || created.get(t, "spec", "colour") != "red" || created.get(t, "apiVersion") != "example.com/v2" {
		t.Fatalf("create: %d %s", created.code, created.body)
	}
	if got := w.do(t, "GET", widgetsPath+"/a", ""); got.get(t, "spec", "color") != "red" || got.get(t, "apiVersion") != "example.com/v1" {
		t.Errorf("stored: %s", got.body)
	}
	patched := w.do(t, "PATCH", v2+"/a", `{"spec":{"colour":"blue"}}`, "Content-Type: application/merge-patch+json")
	if patched.code != 200 || patched.get(t, "spec", "colour") != "blue" {
		t.Errorf("patch: %d %s", patched.code, patched.body)
	}
	if got := w.do(t, "GET", v2, ""); !strings.Contains(got.body, `"colour":"blue"`) {
		t.Errorf("list: %s", got.body)
	}
}

func TestPatchTypes(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("a", `{"color":"red","big":9007199254740993}`))
	got := w.do(t, "PATCH", widgetsPath+"/a", `[{"op":"replace","path":"/spec/color","value":"blue"}]`, "Content-Type: application/json-patch+json")
	if got.code != 200 || got.get(t, "spec", "color") != "blue" || got.get(t, "spec", "big") != "9007199254740993" {
		t.Errorf("JSON patch: %d %s", got.code, got.body)
	}
	w.widgets.conflicts = 2
	got = w.do(t, "PATCH", widgetsPath+"/a", `{"spec":{"big":9223372036854775807,"replicas":null}}`, "Content-Type: application/merge-patch+json; charset=utf-8")
	if got.code != 200 || got.get(t, "spec", "big") != "9223372036854775807" || got.get(t, "spec", "replicas") != "1" {
		t.Errorf("merge patch: %d %s", got.code, got.body)
	}
	if w.widgets.updates != 4 {
		t.Errorf("updates = %d, want retries on fresh objects", w.widgets.updates)
	}
	applied := w.do(t, "PATCH", widgetsPath+"/new?fieldManager=m", "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: new\nspec:\n  color: green\n", "Content-Type: application/apply-patch+yaml")
	if applied.code != 201 || applied.get(t, "spec", "color") != "green" {
		t.Errorf("apply creates: %d %s", applied.code, applied.body)
	}
	applied = w.do(t, "PATCH", widgetsPath+"/a?fieldManager=m&force=true", widget("a", `{"color":"green"}`), "Content-Type: application/apply-patch+yaml")
	if applied.code != 200 || applied.get(t, "spec", "color") != "green" {
		t.Errorf("apply by force: %d %s", applied.code, applied.body)
	}

	pods := "/api/v1/namespaces/default/pods"
	made := w.do(t, "POST", pods, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}}`)
	if made.code != 201 || made.get(t, "kind") != "Pod" {
		t.Fatalf("create pod: %d %s", made.code, made.body)
	}
	got = w.do(t, "PATCH", pods+"/p", `{"spec":{"containers":[{"name":"b","image":"2"}]}}`, "Content-Type: application/strategic-merge-patch+json")
	if got.code != 200 || got.document(t).Get("spec", "containers").Len() != 2 || got.document(t).Get("spec", "containers").Index(1).Get("image").String() != "2" {
		t.Errorf("strategic: %d %s", got.code, got.body)
	}
	bad := w.do(t, "PATCH", pods+"/p", `{"spec":{"$patch":"explode"}}`, "Content-Type: application/strategic-merge-patch+json")
	if bad.code != 400 {
		t.Errorf("unknown $patch: %d %s", bad.code, bad.body)
	}
}

// The status subresource takes and gives objects of the resource's kind, scale those of another.
func TestSubresourceKinds(t *testing.T) {
	w := newWorld(t, Config{})
	v := w.catalog.Resource("", "pods").Version("v1")
	v.Columns = []rest.Column{{TableColumnDefinition: metav1.TableColumnDefinition{Name: "Replicas", Type: "integer"}, Cell: func(map[string]any, time.Time) any { return 1 }}}
	v.Schema, v.Subresources = fieldsSchema{sets.New("containers", "replicas")}, map[string]*rest.Subresource{}
	for name, kind := range map[string]schema.GroupVersionKind{
		"status": {Version: "v1", Kind: "Pod"}, "empty": {}, "scale": {Group: "autoscaling", Version: "v1", Kind: "Scale"},
		"eviction": {Group: "policy", Version: "v1", Kind: "Pod"}, // of the same name, in another group
	} {
		v.Subresources[name] = &rest.Subresource{Name: name, GroupVersionKind: kind, Storage: subStorage{w.pods}}
	}
	pod := "/api/v1/namespaces/default/pods/p"
	if made := w.do(t, "POST", "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"1"}]}}`); made.code != 201 {
		t.Fatalf("create pod: %d %s", made.code, made.body)
	}
	tests := []struct {
		name, column string
		code         int
	}{
		{"", "Replicas", 200}, {"/status", "Replicas", 200}, {"/empty", "Replicas", 200}, {"/scale", "Name", 415}, {"/eviction", "Name", 415},
	}
	for _, tc := range tests {
		t.Run("p"+tc.name, func(t *testing.T) {
			got := w.do(t, "PATCH", pod+tc.name, `{"spec":{"containers":[{"name":"b","image":"2"}]}}`, "Content-Type: application/strategic-merge-patch+json")
			if got.code != tc.code || tc.code == 200 && got.document(t).Get("spec", "containers").Len() != 2 {
				t.Errorf("strategic: %d %s", got.code, got.body)
			}
			got = w.do(t, "GET", pod+tc.name, "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1")
			if first := got.document(t).Get("columnDefinitions").Index(0).Get("name").String(); got.code != 200 || first != tc.column {
				t.Errorf("table: %d %s", got.code, got.body)
			}
			if tc.code != 200 {
				return
			}
			got = w.do(t, "PATCH", pod+tc.name+"?fieldValidation=Strict", `{"spec":{"colour":"red"}}`, "Content-Type: application/merge-patch+json")
			if got.code != 422 || !strings.Contains(got.body, "unknown field") {
				t.Errorf("unknown field: %d %s", got.code, got.body)
			}
		})
	}
}

func TestNamespacesAndStatus(t *testing.T) {
	w := newWorld(t, Config{})
	if got := w.do(t, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`); got.code != 201 || got.document(t).Get("metadata", "namespace").Exists() {
		t.Fatalf("create: %d %s", got.code, got.body)
	}
	if got := w.do(t, "GET", "/api/v1/namespaces/team", ""); got.code != 200 {
		t.Errorf("get: %d %s", got.code, got.body)
	}
	got := w.do(t, "PATCH", "/api/v1/namespaces/team/status", `{"status":{"phase":"Active"}}`, "Content-Type: application/merge-patch+json")
	if got.code != 200 || got.get(t, "status", "phase") != "Active" {
		t.Errorf("status: %d %s", got.code, got.body)
	}
	w.do(t, "POST", widgetsPath, widget("a", `{}`))
	got = w.do(t, "PATCH", widgetsPath+"/a/status", `{"status":{"ok":true}}`, "Content-Type: application/merge-patch+json")
	if got.code != 200 || got.get(t, "status", "ok") != "true" {
		t.Errorf("widget status: %d %s", got.code, got.body)
	}
	if got := w.do(t, "GET", widgetsPath+"/a/status", ""); got.code != 200 {
		t.Errorf("get status: %d %s", got.code, got.body)
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t, Config{})
	for _, name := range []string{"a", "b", "c"} {
		w.do(t, "POST", widgetsPath, widget(name, `{}`))
	}
	w.do(t, "POST", widgetsPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"held","finalizers":["x.io/y"]}}`)
	if got := w.do(t, "DELETE", widgetsPath+"/held", `{"propagationPolicy":"Background"}`); got.code != 200 || got.get(t, "kind") != "Widget" {
		t.Errorf("held: %d %s", got.code, got.body)
	}
	if got := w.do(t, "DELETE", widgetsPath+"/a", `{"apiVersion":"example.com/v1","kind":"DeleteOptions","preconditions":{"uid":"uid-a"}}`); got.code != 200 {
		t.Errorf("options of a served version: %d %s", got.code, got.body)
	}
	got := w.do(t, "DELETE", widgetsPath, "")
	if got.code != 200 || got.get(t, "kind") != "WidgetList" || got.document(t).Get("items").Len() != 3 {
		t.Errorf("collection: %d %s", got.code, got.body)
	}
}

func TestTooLargeGivesUpManagedFields(t *testing.T) {
	w := newWorld(t, Config{})
	w.widgets.limit = 330
	created := w.do(t, "POST", widgetsPath, widget("a", `{"color":"`+strings.Repeat("x", 100)+`"}`))
	if created.code != 201 || created.document(t).Get("metadata", "managedFields").Exists() {
		t.Errorf("create: %d %s", created.code, created.body)
	}
	patched := w.do(t, "PATCH", widgetsPath+"/a", `{"spec":{"color":"`+strings.Repeat("y", 100)+`"}}`, "Content-Type: application/merge-patch+json")
	if patched.code != 200 || patched.document(t).Get("metadata", "managedFields").Exists() {
		t.Errorf("patch: %d %s", patched.code, patched.body)
	}
	if got := w.do(t, "POST", widgetsPath, widget("b", `{"color":"`+strings.Repeat("x", 400)+`"}`)); got.code != 413 {
		t.Errorf("too large all the same: %d %s", got.code, got.body)
	}
}
