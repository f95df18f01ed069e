package policy

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	"weir.dev/weir/server/admission"
)

// Match says which requests a policy or a binding concerns, as MatchResources of admissionregistration.k8s.io/v1
// says it. It is immutable; nil concerns every request.
type Match struct {
	// namespaces and objects are nil where they select everything.
	namespaces, objects *selector
	rules, excluded     []rule
	// text is the same for equal rules; see selected.
	text unique.Handle[string]
	// exact: only the version that the request names counts, not an equivalent one.
	exact bool
}

// rule is one of resourceRules or excludeResourceRules.
type rule struct {
	operations       []admission.Operation // nil: all
	groups, versions []string              // nil: all
	resources        []resourcePattern
	scope            admissionregistrationv1.ScopeType // "*": all
	names            []string                          // nil: all
}

// resourcePattern is one of a rule's resources: pods, pods/status, */scale, *, */*.
type resourcePattern struct {
	resource, subresource string
}

const all = "*"

// NewMatch returns the Match of a policy's matchConstraints or a binding's matchResources; nil gives nil.
func NewMatch(from *admissionregistrationv1.MatchResources) (*Match, error) {
	if from == nil {
		return nil, nil
	}
	m := rulesOnly(from)
	var err error
	if m.namespaces, err = newSelector(from.NamespaceSelector); err != nil {
		return nil, fmt.Errorf("namespaceSelector: %w", err)
	}
	if m.objects, err = newSelector(from.ObjectSelector); err != nil {
		return nil, fmt.Errorf("objectSelector: %w", err)
	}
	return m, nil
}

// rulesOnly is NewMatch without the selectors, which are as if they selected everything.
func rulesOnly(from *admissionregistrationv1.MatchResources) *Match {
	m := &Match{exact: from.MatchPolicy != nil && *from.MatchPolicy == admissionregistrationv1.Exact,
		rules: newRules(from.ResourceRules), excluded: newRules(from.ExcludeResourceRules)}
	m.text = unique.Make(fmt.Sprintf("%#v", []any{m.rules, m.excluded, m.exact}))
	return m
}

// selector selects by labels. It is immutable.
type selector struct {
	labels.Selector
	// text is the same for equal selectors.
	text unique.Handle[string]
	// key is a label that has one of values in all that is selected; values is nil where there is none. A namespace's name is
	// taken before others.
	key    string
	values []string
}

// String implements fmt.Stringer. A nil selector selects everything.
func (s *selector) String() string {
	if s == nil {
		return ""
	}
	return s.text.Value()
}

// newSelector returns nil for a selector that selects everything.
func newSelector(from *metav1.LabelSelector) (*selector, error) {
	if from == nil {
		return nil, nil
	}
	by, err := metav1.LabelSelectorAsSelector(from)
	if err != nil || by.Empty() {
		return nil, err
	}
	s := &selector{Selector: by, text: unique.Make(by.String())}
	requirements, _ := by.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if s.values == nil || r.Key() == corev1.LabelMetadataName {
				s.key, s.values = r.Key(), r.ValuesUnsorted()
			}
		default:
		}
	}
	return s, nil
}

func newRules(from []admissionregistrationv1.NamedRuleWithOperations) []rule {
	rules := make([]rule, 0, len(from))
	for i := range from {
		r := &from[i]
		out := rule{groups: unlessAll(r.APIGroups), versions: unlessAll(r.APIVersions), scope: admissionregistrationv1.AllScopes,
			names: slices.Clone(r.ResourceNames)}
		if r.Scope != nil {
			out.scope = *r.Scope
		}
		if !slices.Contains(r.Operations, admissionregistrationv1.OperationAll) {
			out.operations = make([]admission.Operation, 0, len(r.Operations))
			for _, op := range r.Operations {
				out.operations = append(out.operations, admission.Operation(op))
			}
		}
		for _, text := range r.Resources {
			resource, subresource, _ := strings.Cut(text, "/")
			out.resources = append(out.resources, resourcePattern{resource: resource, subresource: subresource})
		}
		rules = append(rules, out)
	}
	return rules
}

// unlessAll returns a copy of list, nil where it has the wildcard.
func unlessAll(list []string) []string {
	if slices.Contains(list, all) {
		return nil
	}
	return append([]string{}, list...)
}

// concerns reports whether a rule may select a request of that kind, whatever its version and name. It is what the index asks.
func (m *Match) concerns(k indexKey) bool {
	if m == nil || len(m.rules) == 0 {
		return true
	}
	return slices.ContainsFunc(m.rules, func(r rule) bool {
		return r.selectsOperation(k.operation) && r.selectsResource(k.group, k.resource, k.subresource) && r.selectsScope(k.namespaced)
	})
}

func (r *rule) selectsOperation(op admission.Operation) bool {
	return r.operations == nil || slices.Contains(r.operations, op)
}

func (r *rule) selectsResource(group, resource, subresource string) bool {
	if r.groups != nil && !slices.Contains(r.groups, group) {
		return false
	}
	for _, p := range r.resources {
		if (p.resource == all || p.resource == resource) && (p.subresource == all || p.subresource == subresource) {
			return true
		}
	}
	return false
}

// selects reports whether the rule selects the request as one of a version.
func (r *rule) selects(e *evaluation, version string) bool {
	a := e.attributes
	return r.selectsOperation(a.Operation) &&
		(r.versions == nil || slices.Contains(r.versions, version)) &&
		r.selectsResource(a.Resource.Group, a.Resource.Resource, a.Subresource) &&
		r.selectsScope(a.Namespace != "" && !isNamespaces(a)) &&
		(len(r.names) == 0 || slices.Contains(r.names, a.Name))
}

// selectsScope looks at where the object is.
func (r *rule) selectsScope(namespaced bool) bool {
	switch r.scope {
	case admissionregistrationv1.NamespacedScope:
		return namespaced
	case admissionregistrationv1.ClusterScope:
		return !namespaced
	default:
		return true
	}
}

func isNamespaces(a *admission.Attributes) bool {
	return a.Resource.Group == "" && a.Resource.Resource == "namespaces"
}

// target is the version in which a policy sees a request: that of the request, or an equivalent one that a
// rule names. It is not changed.
type target struct {
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// matches reports whether the policy concerns the request, and in which version.
func (p *Policy) matches(e *evaluation) (as *target, ok bool, err error) {
	if e.selected.asked && e.selected.by == p.rules { // as the policy before
		return e.selected.as, e.selected.ok, nil
	}
	return p.Match.matches(e)
}

// matches reports whether the request is concerned, and in which version.
func (m *Match) matches(e *evaluation) (as *target, ok bool, err error) {
	if m == nil {
		return e.itself(), true, nil
	}
	// An error is told only of a policy that concerns the request by all else.
	inNamespace, namespaceErr := m.matchesNamespace(e)
	if !inNamespace && namespaceErr == nil {
		return nil, false, nil
	}
	if !m.matchesObject(e) {
		return nil, false, nil
	}
	if !e.selected.asked || e.selected.by != m.text {
		e.selected = selected{by: m.text, asked: true}
		e.selected.as, e.selected.ok = m.selects(e)
	}
	if !e.selected.ok {
		return nil, false, nil
	}
	return e.selected.as, namespaceErr == nil, namespaceErr
}

// selected is whether the rules of a Match select a request, and in which version. Policies about the same resource often
// have the same rules.
type selected struct {
	by    unique.Handle[string]
	asked bool
	as    *target
	ok    bool
}

// selects asks the rules.
func (m *Match) selects(e *evaluation) (as *target, ok bool) {
	if _, excluded := m.rulesMatch(e, m.excluded); excluded {
		return nil, false
	}
	if len(m.rules) == 0 {
		return e.itself(), true
	}
	return m.rulesMatch(e, m.rules)
}

func (m *Match) rulesMatch(e *evaluation, rules []rule) (as *target, ok bool) {
	version := e.attributes.Resource.Version
	for i := range rules {
		if rules[i].selects(e, version) {
			return e.itself(), true
		}
	}
	if m.exact || len(rules) == 0 {
		return nil, false
	}
	for i := range rules {
		for _, other := range e.versions() {
			if other != version && rules[i].selects(e, other) {
				return e.targetIn(other), true
			}
		}
	}
	return nil, false
}

// matchesNamespace asks the labels of the namespace that the object is in, or is. What is in no namespace is never exempt.
func (m *Match) matchesNamespace(e *evaluation) (bool, error) {
	if m.namespaces == nil || isNowhere(e.attributes) {
		return true, nil
	}
	return e.selectsNamespace(m.namespaces)
}

// matchesObject asks the labels of the object, or of what it was.
func (m *Match) matchesObject(e *evaluation) bool {
	return m.objects == nil || e.answers.selectsObject(e.attributes, m.objects)
}
