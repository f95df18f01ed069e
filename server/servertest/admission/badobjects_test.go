package admission

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/servertest"
)

// judge makes a request that the policies judge, as a dry run.
func (c client) judge(t *testing.T) *answer {
	t.Helper()
	return c.do(t, http.MethodPost, configMaps+"?dryRun=All", configMap("judged", "text"))
}

// TestParamsVanish: a request meets the params that are there when it is made.
func TestParamsVanish(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	c.vap(t, "most", object{"paramKind": object{"apiVersion": "v1", "kind": "Secret"},
		"validations": list{object{"expression": "size(object.data) <= int(params.metadata.labels.most)", "messageExpression": "'at most ' + params.metadata.labels.most"}}},
		object{"paramRef": object{"name": "most", "namespace": "default", "parameterNotFoundAction": "Deny"}})
	const secrets = "/api/v1/namespaces/default/secrets"
	params := object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "most", "labels": object{"most": "0"}}}
	away := invalid("failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
	denied := invalid("ValidatingAdmissionPolicy 'most' with binding 'most' denied request: at most 0")
	for range 20 {
		away.check(t, "without params", c.judge(t))
		if a := c.do(t, http.MethodPost, secrets, params); a.code != http.StatusCreated {
			t.Fatal(a)
		}
		denied.check(t, "with params", c.judge(t))
		if a := c.do(t, http.MethodDelete, secrets+"/most", nil); a.code != http.StatusOK {
			t.Fatal(a)
		}
	}
}

// TestParamKindVanishes: the definition of the params' kind is deleted, and comes back.
func TestParamKindVanishes(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	definition := object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "mosts.example.com"},
		"spec": object{"group": "example.com", "scope": "Cluster", "names": object{"plural": "mosts", "kind": "Most"},
			"versions": list{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{"type": "object",
				"properties": object{"n": object{"type": "integer"}}}}}}}}
	const mosts = "/apis/example.com/v1/mosts"
	c.vap(t, "most", object{"paramKind": object{"apiVersion": "example.com/v1", "kind": "Most"},
		"validations": list{object{"expression": "size(object.data) <= params.n", "message": "too many"}}},
		object{"paramRef": object{"name": "most", "parameterNotFoundAction": "Deny"}})
	unknown := invalid("failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Most'")
	denied := invalid("ValidatingAdmissionPolicy 'most' with binding 'most' denied request: too many")
	for range 3 {
		unknown.check(t, "without the kind", c.judge(t))
		if a := c.do(t, http.MethodPost, definitions, definition); a.code != http.StatusCreated {
			t.Fatal(a)
		}
		c.until(t, mosts, func(o object) bool { return o["kind"] == "MostList" })
		if a := c.do(t, http.MethodPost, mosts, object{"apiVersion": "example.com/v1", "kind": "Most", "metadata": object{"name": "most"}, "n": 0}); a.code != http.StatusCreated {
			t.Fatal(a)
		}
		denied.check(t, "with the kind", c.judge(t))
		if a := c.do(t, http.MethodDelete, definitions+"/mosts.example.com", nil); a.code != http.StatusOK {
			t.Fatal(a)
		}
		gone := func(o object) bool { return o["code"] == float64(http.StatusNotFound) }
		c.until(t, definitions+"/mosts.example.com", gone)
		c.until(t, mosts, gone) // the end of a definition takes effect a moment later
	}
}

// TestNamespaceEnds: policies judge what is in a namespace that is being deleted, see that
// it is, and nothing is created in it.
func TestNamespaceEnds(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	c.vap(t, "phase", object{"validations": list{object{
		"expression": "namespaceObject.status.phase == 'Active'", "messageExpression": "request.operation + ' while it is ' + namespaceObject.status.phase"}}},
		object{"validationActions": list{"Warn"}, "matchResources": object{"namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": "ending"}}}})
	if a := c.do(t, http.MethodPost, namespaces, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "ending"}}); a.code != http.StatusCreated {
		t.Fatal(a)
	}
	const maps = namespaces + "/ending/configmaps"
	kept := configMap("kept", "text")
	kept["metadata"] = object{"name": "kept", "finalizers": list{"example.com/keep"}}
	if a := c.do(t, http.MethodPost, maps, kept); a.code != http.StatusCreated || len(a.warnings) > 0 {
		t.Fatal(a, a.warnings)
	}
	if a := c.do(t, http.MethodDelete, namespaces+"/ending", nil); a.code >= 300 {
		t.Fatal(a)
	}
	forbidden := refusal{http.StatusForbidden, "Forbidden", []string{"is forbidden: unable to create new content in namespace ending because it is being terminated"}}
	forbidden.check(t, "a creation", c.do(t, http.MethodPost, maps, configMap("late", "text")))
	a := c.do(t, http.MethodPatch, maps+"/kept", object{"metadata": object{"finalizers": nil}})
	if a.code != http.StatusOK || len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "UPDATE while it is Terminating") {
		t.Errorf("an update: %s %q", a, a.warnings)
	}
	c.until(t, namespaces+"/ending", func(o object) bool { return o["code"] == float64(http.StatusNotFound) })
	gone := refusal{http.StatusNotFound, "NotFound", []string{`namespaces "ending" not found`}}
	gone.check(t, "a creation when it is gone", c.do(t, http.MethodPost, maps, configMap("late", "text")))
}

// TestLargeObjects: all engines judge an object of nearly 3 MiB, and one that is larger is
// refused before they see it.
func TestLargeObjects(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	c.put(t, definitions, object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "larges.example.com"},
		"spec": object{"group": "example.com", "scope": "Cluster", "names": object{"plural": "larges", "kind": "Large"},
			"versions": list{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{"type": "object",
				"x-kubernetes-preserve-unknown-fields": true}}}}}})
	const larges = "/apis/example.com/v1/larges"
	c.until(t, larges, func(o object) bool { return o["kind"] == "LargeList" })
	concerns := on("example.com", "larges")
	c.vap(t, "items", object{"matchConstraints": concerns, "validations": list{
		object{"expression": "object.items.all(i, i.s.startsWith('x'))"}, object{"expression": "size(object.items) > 1000"}}}, nil)
	c.policy(t, "items", object{"matchConstraints": concerns, "rego": object{"source": "package p\n\ndeny contains \"no items\" if count(input.object.items) < 1000\n"}})
	c.put(t, weirModules, module("stamp", stamp("0001")))
	c.ready(t, weirModules+"/stamp", "True")
	c.policy(t, "stamp", object{"matchConstraints": concerns, "wasm": object{"module": "stamp"}})
	c.ready(t, weirPolicies+"/stamp", "True")
	large := func(bytes int) []byte {
		item := `{"s":"` + strings.Repeat("x", 2800) + `"},`
		const head, tail = `{"apiVersion":"example.com/v1","kind":"Large","metadata":{"name":"large"},"data":{},"items":[`, `{"s":"x"}]}`
		n := (bytes - len(head) - len(tail)) / len(item)
		text := head + strings.Repeat(item, n) + tail
		return []byte(text + strings.Repeat(" ", bytes-len(text)))
	}
	const most = 3 << 20 // bytes, as kube-apiserver takes
	began := time.Now()
	a := c.do(t, http.MethodPost, larges+"?dryRun=All", large(most-4096))
	t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), a)
	if a.code != http.StatusCreated || !strings.Contains(string(a.body), `"v":"0001"`) {
		t.Errorf("an object of nearly 3 MiB: %s", a)
	}
	tooLarge := refusal{http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", []string{fmt.Sprintf("limit is %d", most)}}
	tooLarge.check(t, "an object of more than 3 MiB", c.do(t, http.MethodPost, larges+"?dryRun=All", large(most+1)))
}

// TestOddPolicies: what goes wrong in a policy without keeping it from a verdict.
func TestOddPolicies(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	tests := []struct {
		name string
		spec object
		want refusal // its code 0: it passes
	}{
		{"a thousand variables", object{"variables": counting(1000), "validations": list{object{"expression": "variables.v999 == 1000", "messageExpression": "'it is ' + string(variables.v999)"}}},
			invalid("denied request: it is 999")},
		{"a regular expression with a bad worst case", object{"validations": list{object{"expression": "!(object.data.v + lists.range(2000).map(i, 'a').join('')).matches('^(a+)+$')"}}}, refusal{}},
		{"a message that fails", object{"validations": list{object{"expression": "false", "message": "the plain one", "messageExpression": "string(object.data.absent)"}}},
			invalid("denied request: the plain one")},
		{"a message that fails, and no other", object{"validations": list{object{"expression": "1 > 2", "messageExpression": "string(object.data.absent)"}}},
			invalid("denied request: failed expression: 1 > 2")},
		{"a message of two lines", object{"validations": list{object{"expression": "false", "message": "the plain one", "messageExpression": `"a\nb"`}}},
			invalid("denied request: the plain one")},
		{"a message of six KiB", object{"validations": list{object{"expression": "false", "message": "the plain one", "messageExpression": "lists.range(6144).map(i, 'a').join('')"}}},
			invalid("denied request: the plain one")},
		{"an audit annotation of 20 KiB", object{"validations": list{object{"expression": "true"}},
			"auditAnnotations": list{object{"key": "long", "valueExpression": "lists.range(20480).map(i, 'a').join('')"}}}, refusal{}},
		{"an audit annotation that fails", object{"validations": list{object{"expression": "true"}},
			"auditAnnotations": list{object{"key": "fails", "valueExpression": "object.data.absent"}}},
			invalid("denied request: ", "object.data.absent")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.vap(t, "odd", tc.spec, nil)
			a := c.judge(t)
			t.Log(a)
			if tc.want.code != 0 {
				tc.want.check(t, "a request", a)
			} else if a.code != http.StatusCreated {
				t.Errorf("got %s", a)
			}
			c.remove(t, validatingPolicies, validatingBindings, "odd")
		})
	}
}

// TestBadMutations: a mutation that can be made, and that makes what may not be stored.
func TestBadMutations(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	tests := []struct {
		name, ops string
		want      refusal
	}{
		{"a text for a map", `[JSONPatch{op: "replace", path: "/data", value: "text"}]`,
			invalid(`ConfigMap "judged" is invalid: data: Invalid value: "string": data in body must be of type object: "string"`)},
		{"a label that is none", `[JSONPatch{op: "add", path: "/metadata/labels", value: {"a": "not a value!"}}]`, invalid("metadata.labels", "a valid label must be an empty string or consist of alphanumeric characters")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c.mapPolicy(t, "bad", object{"mutations": list{object{"patchType": "JSONPatch", "jsonPatch": object{"expression": tc.ops}}}})
			tc.want.check(t, "a request", c.judge(t))
			c.remove(t, mutatingPolicies, mutatingBindings, "bad")
		})
	}
}
