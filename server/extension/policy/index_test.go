package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unique"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// asked counts how often a selector is asked.
type asked struct {
	labels.Selector
	times *int
}

func (s asked) Matches(of labels.Labels) bool {
	*s.times++
	return s.Selector.Matches(of)
}

// countSelectors has all selectors of policies count.
func countSelectors(list []*Policy) (times *int) {
	times = new(int)
	count := func(s *selector) *selector {
		if s == nil {
			return nil
		}
		return &selector{asked{s.Selector, times}, s.text, s.key, s.values}
	}
	counting := func(m *Match) *Match {
		if m == nil {
			return nil
		}
		c := *m
		c.namespaces, c.objects = count(m.namespaces), count(m.objects)
		return &c
	}
	for _, p := range list {
		p.Match = counting(p.Match)
		for _, b := range p.Bindings {
			b.Match = counting(b.Match)
		}
	}
	return times
}

// countedReads counts how often a namespace is read.
type countedReads struct {
	storedNamespaces
	times *int
}

func (n countedReads) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	*n.times++
	return n.storedNamespaces.Get(ctx, name, opts)
}

// TestIndexCostsNothingWhereNothingMatches: a thousand policies that do not concern a request have none of their selectors
// asked that one would not have, and allocate nothing. Only a label of the namespace takes that it is read.
func TestIndexCostsNothingWhereNothingMatches(t *testing.T) {
	type ways = func(i int, m *admissionregistrationv1.MatchResources)
	narrow := map[string]ways{}
	for _, how := range narrowings {
		narrow[how.name] = how.narrow
	}
	tests := []struct {
		name      string
		policies  func(n int) []*Policy
		selectors int
		reads     int
		free      bool
	}{
		{name: "another resource", free: true, policies: func(n int) (list []*Policy) {
			for i := range n {
				m, err := NewMatch(rules("example.com", fmt.Sprintf("things%d", i), "*"))
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, &Policy{Kind: validatingKind, Name: fmt.Sprint(i), Match: m, Judge: admits{}, Bindings: []*Binding{{Name: "b"}}})
			}
			return list
		}},
		{name: "another scope", free: true, policies: func(n int) (list []*Policy) {
			list = elsewhere(t, n, func(int, *admissionregistrationv1.MatchResources) {})
			for _, p := range list {
				p.Match.rules[0].scope = admissionregistrationv1.ClusterScope
			}
			return list
		}},
		{name: "another namespace", free: true, policies: func(n int) []*Policy { return elsewhere(t, n, narrow["namespace"]) }},
		{name: "other namespaces, of the policy", free: true, policies: func(n int) []*Policy {
			list := elsewhere(t, n, narrow["namespace"])
			for _, p := range list {
				p.Match.namespaces, p.Bindings[0].Match = p.Bindings[0].Match.namespaces, nil
			}
			return list
		}},
		{name: "another label of the namespace", reads: 1, policies: func(n int) []*Policy { return elsewhere(t, n, narrow["label of a namespace"]) }},
		{name: "another label", free: true, policies: func(n int) []*Policy { return elsewhere(t, n, narrow["label"]) }},
		{name: "other labels", free: true, policies: func(n int) []*Policy { return elsewhere(t, n, narrow["labels"]) }},
		{name: "without a label", free: true, selectors: 1, policies: func(n int) []*Policy {
			return elsewhere(t, n, func(_ int, m *admissionregistrationv1.MatchResources) {
				m.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}
			})
		}},
		{name: "a namespace without a label", reads: 1, selectors: 1, policies: func(n int) []*Policy {
			return elsewhere(t, n, func(_ int, m *admissionregistrationv1.MatchResources) {
				m.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpExists}}}
			})
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			allocations := map[int]float64{}
			for _, n := range []int{1, 1000} {
				_, ctx, create := matching(t, 0)
				reads := 0
				x, err := NewAdmission(Config{Namespaces: countedReads{times: &reads}})
				if err != nil {
					t.Fatal(err)
				}
				list := tc.policies(n)
				selectors := countSelectors(list)
				ctx = rest.WithCatalog(ctx, policyCatalog{index: NewIndex(list)})
				a := create()
				validate := func() {
					if err := x.Validate(ctx, a); err != nil {
						t.Fatal(err)
					}
				}
				validate() // what concerns the resource is remembered
				*selectors, reads = 0, 0
				validate()
				if *selectors != tc.selectors || reads != tc.reads {
					t.Errorf("%d policies: %d selectors were asked, want %d, and the namespace was read %d times, want %d", n, *selectors, tc.selectors, reads, tc.reads)
				}
				allocations[n] = testing.AllocsPerRun(200, validate)
			}
			if !raceEnabled && (tc.free && allocations[1000] != 0 || allocations[1000] != allocations[1]) {
				t.Errorf("a thousand policies make %v allocations, one makes %v", allocations[1000], allocations[1])
			}
		})
	}
}

// TestSelectorsAreAskedOnce: by all policies and bindings of a request that share them, whether they match or not.
func TestSelectorsAreAskedOnce(t *testing.T) {
	_, ctx, create := matching(t, 0)
	shared := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	other := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	list := elsewhere(t, 50, func(i int, m *admissionregistrationv1.MatchResources) {
		m.NamespaceSelector, m.ObjectSelector = shared, shared
		if i%2 == 1 {
			m.ObjectSelector = other
		}
	})
	for _, p := range list { // a second binding, of its own Match
		again := *p.Bindings[0].Match
		p.Bindings = append(p.Bindings, &Binding{Name: "c", Match: &again})
	}
	selectors := countSelectors(list)
	reads := 0
	x, err := NewAdmission(Config{Namespaces: countedReads{times: &reads}})
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	ctx = WithObserver(ctx, &Observer{Judged: func(Judgement) { judged++ }})
	if err := x.Validate(rest.WithCatalog(ctx, policyCatalog{index: NewIndex(list)}), create()); err != nil {
		t.Fatal(err)
	}
	if judged != 50 {
		t.Errorf("%d judgements, want those of 25 policies by two bindings", judged)
	}
	if *selectors != 2 || reads != 1 {
		t.Errorf("%d selectors were asked, want one for the namespace and one for the object; the namespace was read %d times", *selectors, reads)
	}
}

// pasture is a catalog of sheep in two versions.
type pasture struct {
	rest.Catalog
	index *Index
}

func (h pasture) Policies() *Index          { return h.index }
func (pasture) Resources() []*rest.Resource { return nil }
func (pasture) Resource(group, name string) *rest.Resource {
	return &rest.Resource{Group: group, Name: name, Kind: "Sheep", StorageVersion: "v1", Versions: []*rest.Version{{Name: "v1"}, {Name: "v2"}}}
}

// labelledNamespaces has those of its names, and fails for others.
type labelledNamespaces map[string]map[string]any

func (n labelledNamespaces) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	found, ok := n[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
	}
	return document.FromValue(map[string]any{"metadata": map[string]any{"name": name, "labels": found}})
}

// journal has what the policies of a request did, and who was refused for what.
type journal struct{ lines []string }

func (j *journal) observer() *Observer {
	return &Observer{Judged: func(at Judgement) {
		binding := ""
		if at.Binding != nil {
			binding = at.Binding.Name
		}
		j.lines = append(j.lines, fmt.Sprintf("%s/%s %s %s", at.Policy.Name, binding, at.Outcome, at.Message))
	}}
}

// labeller is a Mutator that puts a label on what it is given.
type labeller struct{ key, value string }

func (labeller) Holds(context.Context, *policies.Review) (bool, error) { return true, nil }

func (l labeller) Mutate(_ context.Context, obj *document.Document, _ *policies.Review, _ Changer) (*document.Document, error) {
	return obj.Edit().Set(l.value, "metadata", "labels", l.key).Document()
}

// TestIndexFindsWhatAScanFinds: over random policies and requests, the index has the same policies judge, in the same
// order, as asking each of them all that it wants.
func TestIndexFindsWhatAScanFinds(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	namespaces := labelledNamespaces{
		"a": {"kubernetes.io/metadata.name": "a", "env": "prod"}, "b": {"kubernetes.io/metadata.name": "b", "env": "test"}, "c": {"kubernetes.io/metadata.name": "c"},
	}
	x, err := NewAdmission(Config{Namespaces: namespaces})
	if err != nil {
		t.Fatal(err)
	}
	met := 0
	for range 150 {
		list := randomPolicies(t, r)
		catalog := pasture{index: NewIndex(list)}
		for range 40 {
			a := randomRequest(t, r)
			by, want := a, a
			var got, scanned journal
			ctx := rest.WithCatalog(t.Context(), catalog)
			gotErrs := []string{
				fmt.Sprint(x.Admit(WithObserver(ctx, got.observer()), &by)),
				fmt.Sprint(x.Validate(WithObserver(ctx, got.observer()), &by)),
			}
			wantErrs := scan(WithObserver(ctx, scanned.observer()), x, catalog, &want)
			if !slices.Equal(got.lines, scanned.lines) || !slices.Equal(gotErrs, wantErrs) {
				t.Fatalf("%s %s %s/%s %s:\ngot  %q %q\nwant %q %q", a.Operation, a.Resource, a.Namespace, a.Name, rawOf(a.Object), got.lines, gotErrs, scanned.lines, wantErrs)
			}
			if (by.Object == nil) != (want.Object == nil) || by.Object != nil && !by.Object.Equal(want.Object) {
				t.Fatalf("got %s, want %s", rawOf(by.Object), rawOf(want.Object))
			}
			met += len(got.lines)
		}
	}
	if met < 1000 {
		t.Errorf("only %d judgements were made", met)
	}
}

func rawOf(d *document.Document) string {
	if d == nil {
		return "null"
	}
	return string(d.Bytes())
}

// scan asks each policy of an index in turn, without the index: first those that change, then those that judge.
func scan(ctx context.Context, x *Admission, catalog pasture, a *admission.Attributes) []string {
	outcome := []string{"<nil>", "<nil>"}
	if isExempt(a) {
		return outcome
	}
	concerned := func(p *Policy) bool {
		return asksRules(p.Match, a) && slices.ContainsFunc(p.Bindings, func(b *Binding) bool { return asksRules(b.Match, a) })
	}
	if a.Operation != admission.Delete && a.Object != nil {
		e, end := x.begin(ctx, a, catalog)
		m := mutation{evaluation: e}
		for _, p := range catalog.index.mutating {
			if concerned(p) && asksSelectors(e, p.Match) {
				if err := m.all([]*Policy{p}); err != nil {
					panic(err)
				}
			}
		}
		end()
		if len(m.denials) > 0 {
			outcome[0] = deny(a, m.denials).Error()
		}
	}
	e, end := x.begin(ctx, a, catalog)
	defer end()
	v := validation{evaluation: e}
	for _, p := range catalog.index.validating {
		if concerned(p) && asksSelectors(e, p.Match) {
			if err := v.policy(p); err != nil {
				panic(err)
			}
		}
	}
	if len(v.denials) > 0 {
		outcome[1] = deny(a, v.denials).Error()
	}
	return outcome
}

// asksRules asks for what no binding may miss even of a policy that can judge nothing: operation, resource and scope.
func asksRules(m *Match, a *admission.Attributes) bool {
	return m == nil || len(m.rules) == 0 || slices.ContainsFunc(m.rules, func(r rule) bool {
		return r.selectsOperation(a.Operation) && r.selectsResource(a.Resource.Group, a.Resource.Resource, a.Subresource) &&
			r.selectsScope(a.Namespace != "" && !isNamespaces(a))
	})
}

// asksSelectors asks the selectors of a Match themselves. A namespace that cannot be read is left to the policy.
func asksSelectors(e *evaluation, m *Match) bool {
	if m == nil {
		return true
	}
	a := e.attributes
	if m.namespaces != nil && (a.Namespace != "" || isNamespaces(a)) {
		set, err := e.namespaceLabels()
		if err == nil && !m.namespaces.Selector.Matches(set) {
			return false
		}
	}
	return m.objects == nil || a.Object != nil && m.objects.Selector.Matches(labelsOf(a.Object)) ||
		a.OldObject != nil && m.objects.Selector.Matches(labelsOf(a.OldObject))
}

func randomPolicies(t *testing.T, r *rand.Rand) (list []*Policy) {
	t.Helper()
	for i := range 1 + r.IntN(12) {
		p := &Policy{Kind: validatingKind, Name: fmt.Sprintf("p%02d", i), Match: randomMatch(t, r, true), Judge: admits{}, FailOpen: r.IntN(4) == 0}
		if r.IntN(2) == 0 {
			p.Kind, p.Judge = mutatingKind, labeller{[]string{"env", "team"}[r.IntN(2)], []string{"prod", "test", "x"}[r.IntN(3)]}
		}
		switch r.IntN(12) {
		case 0:
			p.Err = fmt.Errorf("broken %d", i)
		case 1:
			p.Judge = nil
		case 2:
			p.ParamKind = &schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Unserved"}
		}
		for j := range r.IntN(4) {
			b := &Binding{Name: fmt.Sprint("b", j), Deny: true, Match: randomMatch(t, r, false)}
			if r.IntN(12) == 0 {
				b.Err = fmt.Errorf("broken %d", j)
			}
			p.Bindings = append(p.Bindings, b)
		}
		list = append(list, p)
	}
	return list
}

func randomMatch(t *testing.T, r *rand.Rand, rulesWanted bool) *Match {
	t.Helper()
	if !rulesWanted && r.IntN(4) == 0 {
		return nil
	}
	resources := &admissionregistrationv1.MatchResources{}
	if r.IntN(2) == 0 {
		resources.NamespaceSelector = randomSelector(r, "kubernetes.io/metadata.name", "env")
	}
	if r.IntN(2) == 0 {
		resources.ObjectSelector = randomSelector(r, "team", "env")
	}
	if rulesWanted || r.IntN(4) == 0 {
		pick := func(from ...string) []string { return []string{from[r.IntN(len(from))]} }
		scope := []admissionregistrationv1.ScopeType{admissionregistrationv1.AllScopes, admissionregistrationv1.NamespacedScope, admissionregistrationv1.ClusterScope}[r.IntN(3)]
		resources.ResourceRules = []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{[]admissionregistrationv1.OperationType{"CREATE", "UPDATE", "DELETE", "*", "*"}[r.IntN(5)]},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: pick("v1", "*"), Resources: pick("sheep", "namespaces", "*", "*/*"), Scope: &scope}}}}
	}
	m, err := NewMatch(resources)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func randomSelector(r *rand.Rand, keys ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for range 1 + r.IntN(2) {
		key := keys[r.IntN(len(keys))]
		values := [][]string{{"a"}, {"b", "c"}, {"a", "b"}, {"nowhere"}}
		if key != "kubernetes.io/metadata.name" {
			values = [][]string{{"prod"}, {"test", "x"}, {"prod", "test"}}
		}
		requirement := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values[r.IntN(len(values))]}
		switch r.IntN(6) {
		case 0:
			requirement.Operator = metav1.LabelSelectorOpNotIn
		case 1:
			requirement.Operator, requirement.Values = metav1.LabelSelectorOpExists, nil
		case 2:
			requirement.Operator, requirement.Values = metav1.LabelSelectorOpDoesNotExist, nil
		case 3:
			s.MatchLabels = map[string]string{key: requirement.Values[0]}
			continue
		}
		s.MatchExpressions = append(s.MatchExpressions, requirement)
	}
	return s
}

func randomRequest(t *testing.T, r *rand.Rand) admission.Attributes {
	t.Helper()
	doc := func(name, namespace string) *document.Document {
		with := map[string]any{}
		for _, key := range []string{"env", "team"} {
			if r.IntN(2) == 0 {
				with[key] = []string{"prod", "test", "x"}[r.IntN(3)]
			}
		}
		if namespace == "" && r.IntN(3) > 0 { // one that is written may say anything
			with["kubernetes.io/metadata.name"] = []string{"a", "b", "c"}[r.IntN(3)]
		}
		d, err := document.FromValue(map[string]any{"metadata": map[string]any{"name": name, "namespace": namespace, "labels": with}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := admission.Attributes{Name: "x", Namespace: []string{"a", "b", "c"}[r.IntN(3)],
		Operation: []admission.Operation{admission.Create, admission.Update, admission.Delete}[r.IntN(3)]}
	group, resource, kind := "example.com", "sheep", "Sheep"
	switch r.IntN(6) {
	case 0:
		a.Namespace = ""
	case 1:
		group, resource, kind = "", "namespaces", "Namespace"
		a.Name = a.Namespace
	}
	a.Resource = schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	a.Kind = schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
	if r.IntN(6) == 0 && resource == "sheep" {
		a.Subresource = "status"
	}
	within := a.Namespace
	if resource == "namespaces" {
		within = ""
	}
	if a.Operation != admission.Delete {
		a.Object = doc(a.Name, within)
	}
	if a.Operation != admission.Create {
		a.OldObject = doc(a.Name, within)
	}
	return a
}

// TestIndexOfUnreadableNamespaces: what a policy says of a namespace that cannot be read it says still, unless it is bound to
// others by their names.
func TestIndexOfUnreadableNamespaces(t *testing.T) {
	for _, how := range narrowings {
		_, ctx, create := matching(t, 0)
		x, err := NewAdmission(Config{Namespaces: labelledNamespaces{}})
		if err != nil {
			t.Fatal(err)
		}
		err = x.Validate(rest.WithCatalog(ctx, policyCatalog{index: NewIndex(elsewhere(t, 2, how.narrow))}), create())
		if refused := err != nil; refused != (how.name == "label of a namespace") {
			t.Errorf("%s: %v", how.name, err)
		}
	}
}

// TestSelectorText: the text of a selector tells it from others.
func TestSelectorText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	texts := map[unique.Handle[string]]*metav1.LabelSelector{}
	for range 500 {
		from := randomSelector(r, "env", "team")
		s, err := newSelector(from)
		if err != nil {
			t.Fatal(err)
		}
		other := texts[s.text]
		if other == nil {
			texts[s.text] = from
			continue
		}
		same, _ := newSelector(other)
		for _, env := range []string{"", "prod", "test", "x"} {
			for _, team := range []string{"", "prod", "test", "x"} {
				set := labels.Set{}
				for key, value := range map[string]string{"env": env, "team": team} {
					if value != "" {
						set[key] = value
					}
				}
				if s.Matches(set) != same.Matches(set) {
					t.Fatalf("%v and %v have one text, %s, and %v in common they do not", from, other, s, set)
				}
			}
		}
	}
}
