package rbac

import (
	"fmt"
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// grantsOf yields the bindings for u in the cluster and, unless it is "", in namespace. One that names u
// in several ways comes as often.
func (s *state) grantsOf(u user.Info, namespace string) iter.Seq[grant] {
	return func(yield func(grant) bool) {
		if u == nil || !s.grantsIn("", u, yield) || namespace == "" {
			return
		}
		s.grantsIn(namespace, u, yield)
	}
}

func (s *state) grantsIn(namespace string, u user.Info, yield func(grant) bool) bool {
	if !s.grantsTo(subject{namespace: namespace, name: u.GetName()}, yield) {
		return false
	}
	for _, name := range u.GetGroups() {
		if !s.grantsTo(subject{namespace: namespace, group: true, name: name}, yield) {
			return false
		}
	}
	return true
}

func (s *state) grantsTo(who subject, yield func(grant) bool) bool {
	list, _ := s.grants.get(who)
	for _, g := range list {
		if !yield(g) {
			return false
		}
	}
	return true
}

// role returns what a binding in namespace refers to.
func (s *state) role(kind, name, namespace string) (*role, error) {
	var r *role
	var ok bool
	resource := ""
	switch kind {
	case "Role":
		resource = "role"
		r, ok = s.roles.get(objectKey{namespace, name})
	case "ClusterRole":
		resource = "clusterrole"
		r, ok = s.clusterRoles.get(name)
	default:
		return nil, fmt.Errorf("unsupported role reference kind: %q", kind)
	}
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, name)
	}
	return r, nil
}

// RulesOf returns the rules of the role that a binding in namespace ("" for the cluster) refers to. The
// error is a NotFound where there is none.
func (x *Index) RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	r, err := x.state.Load().role(ref.Kind, ref.Name, namespace)
	if apierrors.IsNotFound(err) {
		resource := ClusterRoles
		if ref.Kind == "Role" {
			resource = Roles
		}
		err = apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, ref.Name)
	}
	if err != nil {
		return nil, err
	}
	return r.rules, nil
}

// RulesFor returns all rules that u has in namespace, "" for the cluster alone. The error says which could not
// be found; the others are complete.
func (x *Index) RulesFor(u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	state := x.state.Load()
	var rules []rbacv1.PolicyRule
	var errs []error
	seen := map[*binding]bool{}
	for g := range state.grantsOf(u, namespace) {
		if seen[g.binding] {
			continue
		}
		seen[g.binding] = true
		r, err := state.role(g.roleKind, g.roleName, g.namespace)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rules = append(rules, r.rules...)
	}
	return rules, utilerrors.NewAggregate(errs)
}
