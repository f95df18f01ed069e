package policy

import (
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
)

func rules(group, resource string, operations ...admissionregistrationv1.OperationType) *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{Operations: operations,
			Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}}}
}

func TestIndex(t *testing.T) {
	policyOn := func(name, group, resource string, operations ...admissionregistrationv1.OperationType) *Policy {
		m, err := NewMatch(rules(group, resource, operations...))
		if err != nil {
			t.Fatal(err)
		}
		return &Policy{Kind: validatingKind, Name: name, Match: m, Bindings: []*Binding{{Name: name}}}
	}
	unbound := policyOn("unbound", "*", "*", "*")
	unbound.Bindings = nil
	x := NewIndex([]*Policy{
		policyOn("z", "apps", "deployments", "CREATE"), policyOn("scale", "apps", "deployments/scale", "*"), policyOn("subresources", "apps", "*/*", "UPDATE"),
		policyOn("a", "*", "*", "*"), policyOn("other", "batch", "jobs", "*"), unbound,
	})
	tests := []struct {
		group, resource, subresource string
		operation                    admission.Operation
		want                         []string
	}{
		{"apps", "deployments", "", admission.Create, []string{"a", "z"}},
		{"apps", "deployments", "", admission.Update, []string{"a", "subresources"}},
		{"apps", "deployments", "scale", admission.Update, []string{"scale", "subresources"}},
		{"apps", "deployments", "status", admission.Update, []string{"subresources"}},
		{"batch", "jobs", "", admission.Delete, []string{"a", "other"}},
		{"", "pods", "", admission.Create, []string{"a"}},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "", admission.Create, nil},
		{"weir.dev", "policies", "", admission.Update, nil},
		{"authorization.k8s.io", "subjectaccessreviews", "", admission.Create, nil},
	}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s %s.%s %s", tc.operation, tc.resource, tc.group, tc.subresource), func(t *testing.T) {
			a := &admission.Attributes{Operation: tc.operation, Subresource: tc.subresource,
				Resource: schema.GroupVersionResource{Group: tc.group, Version: "v1", Resource: tc.resource}}
			for range 2 { // the second time it is remembered
				if got := names(openOf(t, x, a)); !slices.Equal(got, tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			}
		})
	}
}

// openOf are the validating policies that an index has judge a request.
func openOf(t *testing.T, x *Index, a *admission.Attributes) []*Policy {
	t.Helper()
	by, err := NewAdmission(Config{Namespaces: storedNamespaces{}})
	if err != nil {
		t.Fatal(err)
	}
	q := by.inquire(t.Context(), a, policyCatalog{index: x})
	defer q.end()
	return x.candidates(a, q.catalog).validating.open(q)
}

func names(list []*Policy) (names []string) {
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

// TestRollout: a share of the objects is enforced for, and what it is for one object does not depend on the request.
func TestRollout(t *testing.T) {
	percent := func(n int32) *int32 { return &n }
	tests := []struct {
		name     string
		binding  Binding
		low, top int
	}{
		{"all", Binding{}, 10000, 10000},
		{"shadow", Binding{Shadow: true, Percent: percent(100)}, 0, 0},
		{"none", Binding{Percent: percent(0)}, 0, 0},
		{"a tenth", Binding{Percent: percent(10)}, 800, 1200},
		{"half", Binding{Percent: percent(50)}, 4700, 5300},
		{"hundred", Binding{Percent: percent(100)}, 10000, 10000},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			n := 0
			for i := range 10000 {
				life := lifeOf(t, "default", fmt.Sprint("object-", i), "")
				first := tc.binding.enforces(&life[0])
				if first {
					n++
				}
				for _, a := range life[1:] {
					if tc.binding.enforces(&a) != first {
						t.Fatalf("object %d: created: %v, %s %s: %v", i, first, a.Operation, a.Subresource, !first)
					}
				}
			}
			if n < tc.low || n > tc.top {
				t.Errorf("%d of 10000 are enforced", n)
			}
		})
	}
}

// TestRolloutOfGeneratedNames: those who change an object at its creation do not know the name that is made for it.
func TestRolloutOfGeneratedNames(t *testing.T) {
	half := Binding{Percent: new(int32)}
	*half.Percent = 50
	seen := map[bool]int{}
	for i := range 200 {
		prefix := fmt.Sprintf("web-%d-", i)
		first := half.enforces(&lifeOf(t, "default", prefix+"abcde", prefix)[0])
		seen[first]++
		for _, name := range []string{prefix + "abcde", prefix + "fghij"} {
			for _, a := range lifeOf(t, "default", name, prefix) {
				if half.enforces(&a) != first {
					t.Fatalf("%s: the first request: %v, %s of %q: %v", name, first, a.Operation, a.Name, !first)
				}
			}
		}
		created := lifeOf(t, "", prefix+"abcde", prefix)
		for j := range created {
			a := &created[j]
			a.Resource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
			a.Namespace = a.Name // as the endpoints have it
			if half.enforces(a) != half.enforces(&created[0]) {
				t.Fatalf("namespace %s: %s differs from its creation", a.Name, a.Operation)
			}
		}
	}
	if seen[true] < 70 || seen[false] < 70 {
		t.Errorf("of 200 prefixes %d are enforced and %d are not", seen[true], seen[false])
	}
}

// lifeOf are the requests about one object: its creation as those see it who change it and those who judge it, changes,
// its deletion.
func lifeOf(t *testing.T, namespace, name, generateName string) []admission.Attributes {
	t.Helper()
	doc := func(name, uid string, replicas int) *document.Document {
		text := fmt.Sprintf(`{"metadata":{"generateName":%q,"name":%q,"uid":%q},"spec":{"replicas":%d}}`, generateName, name, uid, replicas)
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	uid := "uid-of-" + name
	old, changed := doc(name, uid, 1), doc(name, uid, 2)
	sent, known := doc(name, "", 1), name
	if generateName != "" {
		sent, known = doc("", "", 1), ""
	}
	gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	return []admission.Attributes{
		{Operation: admission.Create, Resource: gvr, Namespace: namespace, Name: known, Object: sent},
		{Operation: admission.Create, Resource: gvr, Namespace: namespace, Name: name, Object: old},
		{Operation: admission.Update, Resource: gvr, Namespace: namespace, Name: name, Object: changed, OldObject: old},
		{Operation: admission.Update, Resource: gvr, Subresource: "status", Namespace: namespace, Name: name, Object: changed, OldObject: old},
		{Operation: admission.Delete, Resource: gvr, Namespace: namespace, Name: name, OldObject: old},
	}
}

func TestLedger(t *testing.T) {
	doc := func(text string) *document.Document {
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := &Policy{Name: "a"}, &Policy{Name: "b"}
	var l ledger
	l.note(a, nil, doc(`{"metadata":{},"spec":{"x":1,"y":{"z":1}}}`), doc(`{"metadata":{"labels":{"l":"1"}},"spec":{"x":2,"y":{"z":1}}}`))
	l.note(b, nil, doc(`{"spec":{"x":2,"y":{"z":1},"xy":1}}`), doc(`{"spec":{"x":3,"y":{"z":1},"xy":2}}`))
	got := l.overlaps()
	if len(got) != 1 || got[0].path != "spec.x" || !slices.Equal(got[0].policies, []string{"a", "b"}) {
		t.Errorf("got %+v", got)
	}
	if paths := changedPaths(nil, "", doc(`{"a":1,"b":[1]}`).Root(), doc(`{"b":[2],"c":{}}`).Root()); !slices.Equal(paths, []string{"b", "c", "a"}) {
		t.Errorf("got %v", paths)
	}
}

func TestTally(t *testing.T) {
	var none *Tally
	none.note(outcomeDeny, time.Second, "", nil, time.Now()) // counts nothing
	tally := &Tally{}
	a := &admission.Attributes{Operation: admission.Create, Name: "x", Resource: schema.GroupVersionResource{Group: "apps", Resource: "deployments"}}
	for i := range 30 {
		tally.note(outcomeShadowDeny, time.Duration(i+1)*time.Millisecond, fmt.Sprint("m", i), a, time.Now())
	}
	tally.note(outcomeError, time.Millisecond, "broken", a, time.Now())
	tally.note(outcomeAllow, time.Millisecond, "", a, time.Now())
	c := tally.Counts()
	if c.ShadowDenied != 30 || c.Failed != 1 || c.Allowed != 1 || c.Total() != 32 || c.LastError != "broken" || c.Worst != 30*time.Millisecond {
		t.Errorf("got %+v", c)
	}
	if len(c.Samples) != maxSamples || c.Samples[maxSamples-1].Message != "m29" || c.Samples[0].Resource != "deployments.apps" {
		t.Errorf("got %+v", c.Samples)
	}
	if c.Median < 10*time.Millisecond || c.P99 < 28*time.Millisecond {
		t.Errorf("median %v, p99 %v", c.Median, c.P99)
	}
}

func TestValidationOf(t *testing.T) {
	for path, want := range map[string]int{"spec.validations[3].expression": 3, "": 1, "spec.rego.source": 1} {
		if got := validationOf(&policies.Denial{Path: path}, 1); got != want {
			t.Errorf("%q: got %d, want %d", path, got, want)
		}
	}
}

// TestQuotesSecrets: who may read a binding, where shadows keep samples, must not learn of secrets there.
func TestQuotesSecrets(t *testing.T) {
	kind := func(k string) *schema.GroupVersionKind { return &schema.GroupVersionKind{Version: "v1", Kind: k} }
	tests := []struct {
		name                  string
		params                *schema.GroupVersionKind
		resource, subresource string
		want                  bool
	}{
		{"a secret", nil, "secrets", "", true},
		{"by a secret", kind("Secret"), "configmaps", "", true},
		{"a token", nil, "serviceaccounts", "token", true},
		{"a service account", nil, "serviceaccounts", "", false},
		{"by a config map", kind("ConfigMap"), "pods", "", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := &admission.Attributes{Operation: admission.Create, Subresource: tc.subresource,
				Resource: schema.GroupVersionResource{Version: "v1", Resource: tc.resource}}
			b := &Binding{Tally: &Tally{}}
			e := &evaluation{attributes: a}
			e.observe(&Policy{ParamKind: tc.params}, b, outcomeShadowDeny, "hunter2", 0)
			want := "hunter2"
			if tc.want {
				want = secretText
			}
			if got := b.Tally.Counts().Samples[0].Message; got != want {
				t.Errorf("kept %q, want %q", got, want)
			}
		})
	}
}
