package policy

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// plan is how the objects of a resource are judged by some policies.
type plan struct {
	operation            admission.Operation
	version              string
	kind                 schema.GroupVersionKind
	validating, mutating []*Policy
	options              *document.Document
}

// plans returns how a resource is judged; none where no policy concerns it or it has no objects.
func (s *survey) plans(r *rest.Resource, busy map[*Policy]bool) []*plan {
	if len(r.Versions) == 0 {
		return nil
	}
	if _, ok := r.Versions[0].Storage.(rest.Lister); !ok {
		return nil
	}
	if isExempt(&admission.Attributes{Resource: schema.GroupVersionResource{Group: r.Group, Resource: r.Name}}) || (s.Namespace != "" && !r.Namespaced) {
		return nil
	}
	var plans []*plan
	add := func(p *Policy, mutating bool) {
		op, ok := s.operation(r, p, mutating)
		if !ok {
			return
		}
		busy[p] = true
		version := versionFor(r, p, op)
		i := slices.IndexFunc(plans, func(have *plan) bool { return have.operation == op && have.version == version })
		if i < 0 {
			i = len(plans)
			plans = append(plans, &plan{operation: op, version: version, kind: schema.GroupVersionKind{Group: r.Group, Version: version, Kind: r.Kind}, options: optionsOf(op)})
		}
		if mutating {
			plans[i].mutating = append(plans[i].mutating, p)
		} else {
			plans[i].validating = append(plans[i].validating, p)
		}
	}
	for _, p := range s.index.mutating {
		add(p, true)
	}
	for _, p := range s.index.validating {
		add(p, false)
	}
	return plans
}

// readsNamespaces returns the name of a policy that reads the namespaces of objects; "": none does.
func readsNamespaces(r *rest.Resource, plans []*plan) string {
	if !r.Namespaced {
		return ""
	}
	selects := func(m *Match) bool { return m != nil && m.namespaces != nil }
	for _, plan := range plans {
		for _, p := range append(slices.Clone(plan.mutating), plan.validating...) {
			m, ok := p.Judge.(Mentioner)
			if p.Judge != nil && (!ok || m.Mentions("namespaceObject")) || selects(p.Match) ||
				slices.ContainsFunc(p.Bindings, func(b *Binding) bool { return selects(b.Match) }) {
				return p.Name
			}
		}
	}
	return ""
}

// operation is what an object is judged as by a policy; ok is false where the policy does not concern the resource.
func (s *survey) operation(r *rest.Resource, p *Policy, mutating bool) (op admission.Operation, ok bool) {
	operations := []admission.Operation{admission.Update, admission.Create, admission.Delete}
	if s.Operation != "" {
		operations = []admission.Operation{s.Operation}
	}
	for _, op := range operations {
		key := indexKey{group: r.Group, resource: r.Name, operation: op, namespaced: r.Namespaced}
		if (op != admission.Delete || !mutating) && p.Match.concerns(key) &&
			slices.ContainsFunc(p.Bindings, func(b *Binding) bool { return b.Match.concerns(key) }) {
			return op, true
		}
	}
	return "", false
}

// versionFor is the version in which a policy meets the objects of a resource: the stored one, or one that its rules name.
func versionFor(r *rest.Resource, p *Policy, op admission.Operation) string {
	versions := make([]string, 0, len(r.Versions))
	if r.Version(r.StorageVersion) != nil {
		versions = append(versions, r.StorageVersion)
	}
	for _, v := range r.Versions {
		if v.Name != r.StorageVersion {
			versions = append(versions, v.Name)
		}
	}
	for _, v := range versions {
		if p.Match == nil || slices.ContainsFunc(p.Match.rules, func(x rule) bool {
			return x.selectsOperation(op) && (x.versions == nil || slices.Contains(x.versions, v)) && x.selectsResource(r.Group, r.Name, "")
		}) {
			return v
		}
	}
	return versions[0]
}

// optionsOf are the options of a request that asks for nothing in particular.
func optionsOf(op admission.Operation) *document.Document {
	kind := map[admission.Operation]string{admission.Create: "CreateOptions", admission.Delete: "DeleteOptions"}[op]
	if kind == "" {
		kind = "UpdateOptions"
	}
	return document.FromCanonical([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"` + kind + `"}`))
}

// defaulterOf fills in what an object of a version leaves out, where the storage of the resource can.
func defaulterOf(r *rest.Resource, version string) func(ctx context.Context, obj *document.Document) (*document.Document, error) {
	v := r.Version(version)
	d, ok := v.Storage.(interface {
		Default(ctx context.Context, obj *document.Document) (*document.Document, error)
	})
	if !ok {
		return nil
	}
	if version == r.StorageVersion {
		return d.Default
	}
	return func(ctx context.Context, obj *document.Document) (*document.Document, error) {
		stored, err := Convert(ctx, r, obj, version, r.StorageVersion)
		if err != nil {
			return nil, err
		}
		if stored, err = d.Default(ctx, stored); err != nil {
			return nil, err
		}
		return Convert(ctx, r, stored, r.StorageVersion, version)
	}
}
