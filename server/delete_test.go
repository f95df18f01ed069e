package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/weir/server/servertest"
)

const configMapsPath = "/api/v1/namespaces/default/configmaps"

// member returns what is at a path, "<absent>" when nothing is.
func member(obj map[string]any, path string) string {
	v, ok, err := unstructured.NestedFieldNoCopy(obj, strings.Split(path, ".")...)
	if err != nil || !ok {
		return "<absent>"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.Trim(string(text), `"`)
}

// wantAnswer sends a request and compares the answer: the code and members by path.
func (t *tester) wantAnswer(method, path, body string, code int, want map[string]string) map[string]any {
	t.Helper()
	got, out := t.request(method, path, body)
	if got != code {
		t.Errorf("%s %s %s: got %d, want %d: %v", method, path, body, got, code, out)
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if have := member(out, path); have != want[path] && !(strings.HasPrefix(want[path], "…") && strings.Contains(have, want[path][len("…"):])) {
			t.Errorf("%s %s: %s is %s, want %s", method, body, path, have, want[path])
		}
	}
	return out
}

func configMapBody(name, meta string) string {
	if meta != "" {
		meta = "," + meta
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s}}`, name, meta)
}

func TestDelete(t *testing.T) {
	all := newTester(t, servertest.Options{})
	all.define("widget")
	const gone, there = http.StatusNotFound, http.StatusOK
	tests := []struct {
		name, meta  string // of the object
		query, body string
		code        int
		want        map[string]string
		after       int // code of a GET then
	}{
		{name: "plain", code: 200, after: gone,
			want: map[string]string{"kind": "Status", "status": "Success", "details.name": "plain", "details.kind": "configmaps"}},
		{name: "finalizer", meta: `"finalizers":["example.com/f"]`, code: 200, after: there,
			want: map[string]string{"kind": "ConfigMap", "metadata.deletionGracePeriodSeconds": "0"}},
		{name: "foreground", meta: `"finalizers":["example.com/f"]`, query: "?propagationPolicy=Foreground", code: 200, after: there,
			want: map[string]string{"metadata.finalizers": `["example.com/f","foregroundDeletion"]`}},
		{name: "orphan-in-body", meta: `"finalizers":["example.com/f"]`, body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`, code: 200, after: there,
			want: map[string]string{"metadata.finalizers": `["example.com/f","orphan"]`}},
		{name: "orphan-dependents", meta: `"finalizers":["example.com/f"]`, body: `{"orphanDependents":true}`, code: 200, after: there,
			want: map[string]string{"metadata.finalizers": `["example.com/f","orphan"]`}},
		{name: "background-wins-over-finalizer", meta: `"finalizers":["orphan"]`, query: "?propagationPolicy=Background", code: 200, after: gone,
			want: map[string]string{"kind": "Status"}},
		{name: "body-wins-over-query", meta: `"finalizers":["example.com/f"]`, query: "?propagationPolicy=Foreground", body: `{"propagationPolicy":"Background"}`, code: 200, after: there,
			want: map[string]string{"metadata.finalizers": `["example.com/f"]`}},
		{name: "unknown-policy", query: "?propagationPolicy=Sideways", code: 422, after: there,
			want: map[string]string{"reason": "Invalid", "message": "…propagationPolicy"}},
		{name: "policy-twice", body: `{"orphanDependents":true,"propagationPolicy":"Orphan"}`, code: 422, after: there,
			want: map[string]string{"reason": "Invalid", "message": "…orphanDependents and deletionPropagation cannot be both set"}},
		{name: "dry-run", query: "?dryRun=All", code: 200, after: there},
		{name: "dry-run-finalizer", meta: `"finalizers":["example.com/f"]`, query: "?dryRun=All", code: 200, after: there},
		{name: "dry-run-other", query: "?dryRun=Some", code: 422, after: there, want: map[string]string{"reason": "Invalid"}},
		{name: "other-uid", body: `{"preconditions":{"uid":"other"}}`, code: 409, after: there, want: map[string]string{"reason": "Conflict", "message": "…The object might have been deleted and then recreated"}},
		{name: "other-revision", body: `{"preconditions":{"resourceVersion":"1"}}`, code: 409, after: there, want: map[string]string{"reason": "Conflict"}},
		{name: "other-uid-finalizer", meta: `"finalizers":["example.com/f"]`, body: `{"preconditions":{"uid":"other"}}`, code: 409, after: there},
		{name: "other-kind-of-options", body: `{"kind":"ConfigMap","apiVersion":"v1"}`, code: 400, after: there, want: map[string]string{"reason": "BadRequest"}},
		{name: "no-json", body: `{`, code: 400, after: there, want: map[string]string{"reason": "BadRequest"}},
		{name: "negative-grace", query: "?gracePeriodSeconds=-5", code: 200, after: gone},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tt := all.in(t)
			for _, kind := range []struct{ path, body string }{
				{configMapsPath, configMapBody(tc.name, tc.meta)},
				{"/apis/example.com/v1/namespaces/default/widgets", strings.NewReplacer(`"v1"`, `"example.com/v1"`, "ConfigMap", "Widget").Replace(configMapBody(tc.name, tc.meta))},
			} {
				created := tt.wantAnswer("POST", kind.path, kind.body, 201, nil)
				want := maps.Clone(tc.want)
				for path, value := range want {
					if strings.HasSuffix(kind.path, "widgets") {
						want[path] = strings.NewReplacer("configmaps", "widgets", "ConfigMap", "Widget").Replace(value)
					}
				}
				tt.wantAnswer("DELETE", kind.path+"/"+tc.name+tc.query, tc.body, tc.code, want)
				live := tt.wantAnswer("GET", kind.path+"/"+tc.name, "", tc.after, nil)
				if tc.after == there && (tc.code != 200 || strings.Contains(tc.query, "dryRun")) && member(live, "metadata.resourceVersion") != member(created, "metadata.resourceVersion") {
					t.Errorf("%s: the object changed", kind.path)
				}
			}
		})
	}
}

// A deletionTimestamp, once set, is never moved later, and nobody but the server sets it.
func TestDeletionTimestampStays(t *testing.T) {
	all := newTester(t, servertest.Options{})
	all.define("widget")
	const path = "/apis/example.com/v1/namespaces/default/widgets"
	created := all.wantAnswer("POST", path, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","finalizers":["example.com/f","example.com/g"],
		"deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":7}}`, 201,
		map[string]string{"metadata.deletionTimestamp": "<absent>", "metadata.deletionGracePeriodSeconds": "<absent>", "metadata.generation": "1"})
	rv := member(created, "metadata.resourceVersion")
	all.wantAnswer("PUT", path+"/a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"`+rv+`","finalizers":["example.com/f","example.com/g"],"deletionTimestamp":"2001-01-01T00:00:00Z"}}`,
		422, map[string]string{"message": "…field is immutable"})

	first := all.wantAnswer("DELETE", path+"/a", "", 200, map[string]string{"metadata.generation": "2"})
	stamp := member(first, "metadata.deletionTimestamp")
	if stamp == "<absent>" {
		t.Fatal("no deletionTimestamp")
	}
	unchanged := map[string]string{"metadata.deletionTimestamp": stamp, "metadata.generation": "2", "metadata.resourceVersion": member(first, "metadata.resourceVersion")}
	for _, query := range []string{"", "?gracePeriodSeconds=100", "?gracePeriodSeconds=0", "?propagationPolicy=Background", "?dryRun=All"} {
		all.wantAnswer("DELETE", path+"/a"+query, "", 200, unchanged)
	}
	all.wantAnswer("GET", path+"/a", "", 200, unchanged)
	for _, meta := range []string{`"deletionGracePeriodSeconds":7`, `"finalizers":["example.com/f","example.com/g","example.com/new"]`} {
		rv = member(all.wantAnswer("GET", path+"/a", "", 200, nil), "metadata.resourceVersion")
		all.wantAnswer("PUT", path+"/a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"`+rv+`","finalizers":["example.com/f","example.com/g"],`+meta+`}}`, 422, nil)
		all.wantAnswer("GET", path+"/a", "", 200, unchanged)
	}

	all.wantAnswer("PUT", path+"/a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"`+rv+`","finalizers":["example.com/f","example.com/g"],"deletionTimestamp":"2101-01-01T00:00:00Z"}}`,
		200, map[string]string{"metadata.deletionTimestamp": stamp})

	o := object{&unstructured.Unstructured{Object: first}, widgets}
	all.patch(o, `{"metadata":{"finalizers":["example.com/g"]}}`)
	all.wantAnswer("GET", path+"/a", "", 200, map[string]string{"metadata.deletionTimestamp": stamp, "metadata.generation": "2"})

	// The update that takes the last finalizer answers with the object, which is gone.
	rv = member(all.wantAnswer("GET", path+"/a", "", 200, nil), "metadata.resourceVersion")
	all.wantAnswer("PUT", path+"/a?dryRun=All", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"`+rv+`"}}`, 200, nil)
	all.wantAnswer("GET", path+"/a", "", 200, nil)
	all.wantAnswer("PUT", path+"/a", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"`+rv+`"}}`, 200,
		map[string]string{"kind": "Widget", "metadata.finalizers": "<absent>", "metadata.deletionTimestamp": stamp})
	all.wantAnswer("GET", path+"/a", "", 404, map[string]string{"reason": "NotFound"})
	all.wantAnswer("DELETE", path+"/a", "", 404, map[string]string{"reason": "NotFound", "message": `widgets.example.com \"a\" not found`})
}

// Finalizers that are not names are refused; those of an object that lives may come and go.
func TestFinalizers(t *testing.T) {
	all := newTester(t, servertest.Options{})
	all.wantAnswer("POST", configMapsPath, configMapBody("bad", `"finalizers":["not a name"]`), 422, map[string]string{"message": "…metadata.finalizers"})
	all.wantAnswer("POST", configMapsPath, configMapBody("bad", `"finalizers":["plain"]`), 422,
		map[string]string{"message": "…name is neither a standard finalizer name nor is it fully qualified"})
	all.wantAnswer("POST", configMapsPath, configMapBody("bad", `"finalizers":["orphan","foregroundDeletion"]`), 422,
		map[string]string{"message": "…finalizer orphan and foregroundDeletion cannot be both set"})
	o := all.configMap("default", "a", finalizers("example.com/f"))
	all.patch(o, `{"metadata":{"finalizers":["example.com/g"]}}`)
	all.patch(o, `{"metadata":{"finalizers":null}}`)
	if all.get(o) == nil {
		t.Fatal("an object that nobody deleted is gone")
	}
	all.delete(o, metav1.DeletePropagationBackground)
	if all.get(o) != nil {
		t.Error("the object is there still")
	}
}

func TestDeleteCollection(t *testing.T) {
	all := newTester(t, servertest.Options{})
	tests := []struct {
		name, query, body string
		code              int
		items, left       []string // names
		check             func(t *tester, ns string)
	}{
		{name: "everything", code: 200, items: []string{"a", "b", "c", "held"}, left: []string{"held"}},
		{name: "label", query: "labelSelector=app=x", code: 200, items: []string{"a", "b"}, left: []string{"c", "held"}},
		{name: "field", query: "fieldSelector=metadata.name=c", code: 200, items: []string{"c"}, left: []string{"a", "b", "held"}},
		{name: "both", query: "labelSelector=app=x&fieldSelector=metadata.name!=a", code: 200, items: []string{"b"}, left: []string{"a", "c", "held"}},
		{name: "nothing", query: "labelSelector=app=none", code: 200, left: []string{"a", "b", "c", "held"}},
		{name: "dry-run", query: "dryRun=All", code: 200, items: []string{"a", "b", "c", "held"}, left: []string{"a", "b", "c", "held"}},
		{name: "dry-run-in-body", body: `{"dryRun":["All"]}`, code: 200, items: []string{"a", "b", "c", "held"}, left: []string{"a", "b", "c", "held"}},
		{name: "policy-in-body", query: "fieldSelector=metadata.name=held", body: `{"propagationPolicy":"Orphan"}`, code: 200, items: []string{"held"},
			left: []string{"a", "b", "c", "held"}, check: func(t *tester, ns string) {
				t.wantAnswer("GET", "/api/v1/namespaces/"+ns+"/configmaps/held", "", 200, map[string]string{"metadata.deletionGracePeriodSeconds": "0"})
			}},
		{name: "precondition", body: `{"preconditions":{"uid":"other"}}`, code: 409, left: []string{"a", "b", "c", "held"}},
		{name: "unknown-policy", query: "propagationPolicy=Sideways", code: 422, left: []string{"a", "b", "c", "held"}},
		{name: "bad-selector", query: "labelSelector=!!", code: 400, left: []string{"a", "b", "c", "held"}},
		{name: "unknown-field", query: "fieldSelector=spec.x=y", code: 400, left: []string{"a", "b", "c", "held"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tt := all.in(t)
			ns := tt.namespace(tc.name)
			label := func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"app": "x"}) }
			tt.configMap(ns, "a", label)
			tt.configMap(ns, "b", label)
			tt.configMap(ns, "c")
			tt.configMap(ns, "held", finalizers("example.com/f"))
			path := "/api/v1/namespaces/" + ns + "/configmaps"
			query := strings.NewReplacer("app=", "app"+url.QueryEscape("="), "!=", url.QueryEscape("!=")).Replace(tc.query)
			out := tt.wantAnswer("DELETE", path+"?"+query, tc.body, tc.code, nil)
			if tc.code == 200 {
				if kind := member(out, "kind"); kind != "ConfigMapList" {
					t.Errorf("got %s, want a list", kind)
				}
				if got := names(out); !slices.Equal(got, tc.items) {
					t.Errorf("got %v, want %v", got, tc.items)
				}
			}
			_, live := tt.request("GET", path, "")
			if got := names(live); !slices.Equal(got, tc.left) {
				t.Errorf("left: %v, want %v", got, tc.left)
			}
			if tc.check != nil {
				tc.check(tt, ns)
			}
		})
	}
	all.wantAnswer("DELETE", "/api/v1/namespaces", "", http.StatusMethodNotAllowed, map[string]string{"reason": "MethodNotAllowed"})
}

func names(list map[string]any) []string {
	items, _, _ := unstructured.NestedSlice(list, "items")
	var out []string
	for _, item := range items {
		out = append(out, member(item.(map[string]any), "metadata.name"))
	}
	return out
}

// A collection of several pages goes as a whole, whoever else deletes from it meanwhile; of many who take the last
// finalizer one deletes and no other fails.
func TestDeleteCollectionHammer(t *testing.T) {
	all := newTester(t, servertest.Options{})
	const objects = 1100 // more than a page
	for i := range objects {
		all.configMap("default", fmt.Sprintf("a%d", i))
	}
	held := all.configMap("default", "held", finalizers("example.com/f"))
	var wg sync.WaitGroup
	fail := func(what string, code int, out map[string]any) {
		t.Errorf("%s: got %d: %v", what, code, out)
	}
	for range 3 {
		wg.Go(func() {
			if code, out := all.request("DELETE", configMapsPath, ""); code != http.StatusOK {
				fail("deletecollection", code, out)
			}
		})
	}
	for i := range objects / 10 {
		wg.Go(func() {
			if code, out := all.request("DELETE", fmt.Sprintf("%s/a%d", configMapsPath, 10*i), ""); code != http.StatusOK && code != http.StatusNotFound {
				fail("delete", code, out)
			}
		})
	}
	wg.Wait()
	_, live := all.request("GET", configMapsPath, "")
	if got := names(live); !slices.Equal(got, []string{"held"}) {
		t.Fatalf("left: %v", got)
	}
	for range 8 {
		wg.Go(func() {
			code, out := all.request("PUT", configMapsPath+"/held", configMapBody("held", ""))
			if code != http.StatusOK && code != http.StatusNotFound {
				fail("update", code, out)
			}
		})
	}
	wg.Wait()
	if all.get(held) != nil {
		t.Error("the object is there still")
	}
}
