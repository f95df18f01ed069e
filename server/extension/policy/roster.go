package policy

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"weir.dev/weir/abi/document"
)

// wants are the selectors of a policy or a binding; nil selects everything.
type wants struct{ namespaces, objects *selector }

func (m *Match) wants() wants {
	if m == nil {
		return wants{}
	}
	return wants{m.namespaces, m.objects}
}

// text is the same for those that want the same.
func (w wants) text() string { return w.namespaces.String() + "\x00" + w.objects.String() }

// gate is what the selectors of a policy and of its bindings want together. A request that does not pass it is none of the
// policy's business.
type gate struct {
	policy wants
	// bindings: one of them has to be met. There is none where a binding takes every request.
	bindings []wants
	// text is the same for gates that the same requests pass.
	text string
}

// newGate returns the gate of a policy. Of one that can judge nothing the bindings are not asked, as its refusal is not theirs.
func newGate(p *Policy, broken bool) *gate {
	g := &gate{policy: p.Match.wants()}
	texts := []string{}
	for _, b := range p.Bindings {
		w := b.Match.wants()
		if broken || w == (wants{}) {
			g.bindings, texts = nil, nil
			break
		}
		if text := w.text(); !slices.Contains(texts, text) {
			g.bindings, texts = append(g.bindings, w), append(texts, text)
		}
	}
	slices.Sort(texts)
	g.text = g.policy.text() + "\x00" + strings.Join(texts, "\x00")
	return g
}

// passes reports whether the selectors select the request. A namespace that cannot be read passes: the policy says what
// follows.
func (g *gate) passes(q *inquiry) bool {
	if !q.meets(g.policy) {
		return false
	}
	return len(g.bindings) == 0 || slices.ContainsFunc(g.bindings, q.meets)
}

// pin returns a label that has one of some values in all that passes the gate; values is nil where there is none. side
// says whose label.
func (g *gate) pin(side func(wants) *selector) (key string, values []string) {
	if s := side(g.policy); s != nil && s.values != nil {
		return s.key, s.values
	}
	for i, w := range g.bindings {
		s := side(w)
		if s == nil || s.values == nil || i > 0 && s.key != key {
			return "", nil
		}
		key, values = s.key, append(values, s.values...)
	}
	slices.Sort(values)
	return key, slices.Compact(values)
}

func ofNamespace(w wants) *selector { return w.namespaces }
func ofObject(w wants) *selector    { return w.objects }

// group are policies with the same gate, in the order of the index.
type group struct {
	gate     *gate
	policies []*Policy
}

// shelf has groups by the values of a label that they want.
type shelf struct {
	key    string
	groups map[string][]*group
}

// roster are the policies that may concern a kind of request, by what their selectors want.
type roster struct {
	// named are those that want one of some namespaces, by the names. The label kubernetes.io/metadata.name of a namespace is
	// its name: it need not be read, and what concerns others is not asked when it cannot be.
	named map[string][]*group
	// objects and namespaces are those that want a label of the object or its namespace; others want something else.
	objects, namespaces []shelf
	others              []*group
}

// newRoster returns the roster of policies, which are in the order of the index.
func newRoster(policies []*Policy, key indexKey, broken func(*Policy) bool) *roster {
	r := &roster{named: map[string][]*group{}}
	groups := map[string]*group{}
	for _, p := range policies {
		g := p.gate
		if broken(p) {
			g = newGate(p, true)
		}
		if same := groups[g.text]; same != nil {
			same.policies = append(same.policies, p)
			continue
		}
		made := &group{gate: g, policies: []*Policy{p}}
		groups[g.text] = made
		r.add(made, key)
	}
	return r
}

func (r *roster) add(g *group, key indexKey) {
	label, values := "", []string(nil)
	if key.namespaced || key.isNamespaces() { // the selectors of others do not ask for namespaces
		label, values = g.gate.pin(ofNamespace)
	}
	if values != nil && label == corev1.LabelMetadataName && key.namespaced {
		for _, name := range values {
			r.named[name] = append(r.named[name], g)
		}
		return
	}
	if label, values := g.gate.pin(ofObject); values != nil {
		r.objects = shelve(r.objects, label, values, g)
		return
	}
	if values != nil {
		r.namespaces = shelve(r.namespaces, label, values, g)
		return
	}
	r.others = append(r.others, g)
}

func shelve(shelves []shelf, key string, values []string, g *group) []shelf {
	i := slices.IndexFunc(shelves, func(s shelf) bool { return s.key == key })
	if i < 0 {
		i, shelves = len(shelves), append(shelves, shelf{key, map[string][]*group{}})
	}
	for _, value := range values {
		shelves[i].groups[value] = append(shelves[i].groups[value], g)
	}
	return shelves
}

func (r *roster) isEmpty() bool {
	return len(r.named)+len(r.objects)+len(r.namespaces)+len(r.others) == 0
}

// open returns the policies whose gates a request passes, in their order. It may be a part of the roster.
func (r *roster) open(q *inquiry) []*Policy {
	var found found
	found.add(q, r.others)
	found.add(q, r.named[q.attributes.Namespace])
	for _, s := range r.objects {
		found.addLabelled(q, s, q.attributes.Object)
		found.addLabelled(q, s, q.attributes.OldObject)
	}
	if len(r.namespaces) > 0 {
		labels, err := q.begin().namespaceLabels()
		for _, s := range r.namespaces {
			if err == nil {
				if value, ok := labels.Lookup(s.key); ok {
					found.add(q, s.groups[value])
				}
				continue
			}
			for _, groups := range s.groups {
				found.add(q, groups)
			}
		}
	}
	return found.inOrder()
}

// found collects policies. Those of one group need no copy.
type found struct {
	first *group
	all   []*Policy
}

func (f *found) add(q *inquiry, groups []*group) {
	for _, g := range groups {
		switch {
		case f.first == g || !g.gate.passes(q):
		case f.first == nil:
			f.first = g
		default:
			if f.all == nil {
				f.all = slices.Clone(f.first.policies)
			}
			f.all = append(f.all, g.policies...)
		}
	}
}

func (f *found) addLabelled(q *inquiry, s shelf, object *document.Document) {
	if object == nil {
		return
	}
	if value := object.Get("metadata", "labels", s.key); value.Exists() {
		f.add(q, s.groups[value.String()])
	}
}

// inOrder returns what was collected. A group may have been found by several values.
func (f *found) inOrder() []*Policy {
	switch {
	case f.first == nil:
		return nil
	case f.all == nil:
		return f.first.policies
	}
	slices.SortFunc(f.all, func(a, b *Policy) int { return cmp.Compare(a.rank, b.rank) })
	return slices.Compact(f.all)
}
