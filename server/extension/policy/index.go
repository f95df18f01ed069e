package policy

import (
	"cmp"
	"slices"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// Policy is one policy in force. It is immutable.
type Policy struct {
	// Kind of the object that it is from, such as ValidatingAdmissionPolicy, and its name.
	Kind, Name string
	// Origin is where it is from, for those whom it denies; "": it is stored, where its name finds it.
	Origin string
	// Match says which requests it concerns.
	Match *Match
	// FailOpen lets a request pass that the policy could not judge.
	FailOpen bool
	// ParamKind is what its params are; nil: it has none.
	ParamKind *schema.GroupVersionKind
	// Judge decides: a policies.Judge or a Mutator. It is nil where Err is not.
	Judge any
	// Err is why the policy cannot judge anything. Requests that it concerns get what its failure policy says.
	Err error
	// Reinvoke runs a mutator once more after a later one has changed the object.
	Reinvoke bool
	// Bindings that put it in force, in the order of their names.
	Bindings []*Binding
	// Tally counts what the policy did by all bindings together; nil: nobody does.
	Tally *Tally
	// series are its metrics, reads what it asks for, gate what its selectors want and rank its place, from when it is in an
	// index. rules are those of Match, where it has no selectors.
	series series
	reads  reads
	rules  unique.Handle[string]
	gate   *gate
	rank   int
}

// Binding puts a policy in force for some requests. It is immutable.
type Binding struct {
	Name string
	// Match says which of the requests that concern the policy; nil: all.
	Match *Match
	// Params says which objects to judge by; nil: none.
	Params *ParamRef
	// Deny, Warn and Audit are what follows from a failed validation.
	Deny, Warn, Audit bool
	// Shadow only counts and samples what the policy would have denied or changed. Percent of the objects are enforced
	// for otherwise; nil: all.
	Shadow  bool
	Percent *int32
	// Tally counts what the binding did; nil: nobody does.
	Tally *Tally
	// Err is why the binding cannot be used.
	Err error
}

// ParamRef names params, by name or by labels.
type ParamRef struct {
	Name      string
	Namespace string
	Selector  labels.Selector
	// DenyMissing refuses the request, as the failure policy says, when there is no such param; otherwise the binding
	// then does nothing.
	DenyMissing bool
}

// Index finds the policies that may concern a request. It is immutable to those who use it.
type Index struct {
	validating, mutating []*Policy // in the order of their names
	// found remembers what concerns a kind of request. There are as many keys as resources and verbs are served.
	found sync.Map // indexKey to *candidates
	// kinds remembers where the kinds of params are served.
	kinds sync.Map // schema.GroupVersionKind to kindEntry
}

// indexKey is what the rules of policies look at first.
type indexKey struct {
	group, resource, subresource string
	operation                    admission.Operation
	// namespaced: the object is in a namespace. A namespace is in the cluster, though its requests name a namespace: itself.
	namespaced bool
}

func (k indexKey) isNamespaces() bool { return k.group == "" && k.resource == "namespaces" }

type candidates struct{ validating, mutating *roster }

// NewIndex returns the index of policies, which are the index's from then on. Those without a binding are not in force.
func NewIndex(list []*Policy) *Index {
	x := &Index{}
	for _, p := range list {
		if len(p.Bindings) == 0 {
			continue
		}
		p.series, p.reads, p.gate = newSeries(len(p.Bindings)), readsOf(p.Judge), newGate(p, false)
		if p.Match != nil && p.Match.namespaces == nil && p.Match.objects == nil {
			p.rules = p.Match.text
		}
		if _, ok := p.Judge.(Mutator); ok || p.Kind == "MutatingAdmissionPolicy" {
			x.mutating = append(x.mutating, p)
		} else {
			x.validating = append(x.validating, p)
		}
	}
	byName := func(a, b *Policy) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) }
	slices.SortFunc(x.validating, byName)
	slices.SortFunc(x.mutating, byName)
	for _, list := range [][]*Policy{x.validating, x.mutating} {
		for i, p := range list {
			p.rank = i
		}
	}
	return x
}

// none is what concerns a request that no policy may concern.
var none = &candidates{&roster{}, &roster{}}

// candidates returns the policies that may concern a request, whatever its labels. catalog is what the index belongs to. A
// nil Index has none.
func (x *Index) candidates(a *admission.Attributes, catalog rest.Catalog) *candidates {
	if x == nil || len(x.validating)+len(x.mutating) == 0 || isExempt(a) {
		return none
	}
	key := indexKey{group: a.Resource.Group, resource: a.Resource.Resource, subresource: a.Subresource, operation: a.Operation,
		namespaced: a.Namespace != "" && !isNamespaces(a)}
	if c, ok := x.found.Load(key); ok {
		return c.(*candidates)
	}
	unserved := func(p *Policy) bool {
		if p.ParamKind == nil {
			return false
		}
		r, _ := x.resourceOf(catalog, *p.ParamKind)
		return r == nil
	}
	c := &candidates{
		validating: newRoster(concerned(x.validating, key), key, func(p *Policy) bool {
			_, judges := p.Judge.(policies.Judge)
			return p.Err != nil || !judges || unserved(p)
		}),
		mutating: newRoster(concerned(x.mutating, key), key, func(p *Policy) bool { return p.Err != nil || unserved(p) }),
	}
	x.found.Store(key, c)
	return c
}

func concerned(list []*Policy, key indexKey) []*Policy {
	var some []*Policy
	for _, p := range list {
		if p.Match.concerns(key) && slices.ContainsFunc(p.Bindings, func(b *Binding) bool { return b.Match.concerns(key) }) {
			some = append(some, p)
		}
	}
	return some
}

// isExempt reports whether no policy is asked: a policy must not lock out its own repair, and reviews are questions.
func isExempt(a *admission.Attributes) bool {
	return isExemptResource(a.Resource.Group, a.Resource.Resource)
}

func isExemptResource(group, resource string) bool {
	switch group {
	case "admissionregistration.k8s.io", "weir.dev":
		return true
	case "authentication.k8s.io":
		return resource == "tokenreviews" || resource == "selfsubjectreviews"
	case "authorization.k8s.io":
		return true // its resources are reviews
	}
	return false
}
