package rbac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// Guard is the layer of one of Resources: upstream's defaults and validation, a roleRef that does
// not change, and that no client grants what it has not.
type Guard struct {
	rest.NoHooks
	resource   string
	escalation *Escalation
}

var _ rest.Layer = (*Guard)(nil)

// NewGuard returns the Guard of a resource.
func NewGuard(resource string, escalation *Escalation) *Guard {
	return &Guard{resource: resource, escalation: escalation}
}

// Name implements rest.Layer.
func (*Guard) Name() string { return "rbac" }

// Implements implements rest.Layer.
func (g *Guard) Implements() rest.HookSet {
	hooks := rest.HookValidate | rest.HookValidateUpdate
	if g.binds() {
		hooks |= rest.HookDefault
	}
	return rest.HookSet(hooks)
}

func (g *Guard) binds() bool { return g.resource == RoleBindings || g.resource == ClusterRoleBindings }

func (g *Guard) namespaced() bool { return g.resource == RoleBindings || g.resource == Roles }

// Default implements rest.Hooks: the API group of the role, and of users and groups, where it is missing or empty.
func (g *Guard) Default(_ context.Context, obj *document.Document) (*document.Document, error) {
	e := obj.Edit()
	if ref := obj.Get("roleRef"); ref.Kind() == document.Object && isEmpty(ref.Get("apiGroup")) {
		e.Set(rbacv1.GroupName, "roleRef", "apiGroup")
	}
	for i, s := range obj.Get("subjects").Elements() {
		kind := s.Get("kind").String()
		if (kind == rbacv1.UserKind || kind == rbacv1.GroupKind) && isEmpty(s.Get("apiGroup")) {
			e.Set(rbacv1.GroupName, "subjects", fmt.Sprint(i), "apiGroup")
		}
	}
	return e.Document()
}

func isEmpty(v document.Value) bool {
	switch v.Kind() {
	case document.Absent, document.Null:
		return true
	case document.String:
		return v.String() == ""
	}
	return false
}

// Validate implements rest.Hooks.
func (g *Guard) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	if err := g.permit(ctx, obj, nil); err != nil {
		return nil, err
	}
	return g.judge(obj, nil), nil
}

// ValidateUpdate implements rest.Hooks.
func (g *Guard) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	if err := g.permit(ctx, obj, old); err != nil {
		return nil, err
	}
	errs := g.judge(obj, old)
	if g.binds() && !obj.Get("roleRef").Equal(old.Get("roleRef")) {
		var ref rbacv1.RoleRef
		if err := unmarshal(obj.Get("roleRef"), &ref); err == nil { // the schema tells of one that cannot be read
			errs = append(errs, field.Invalid(field.NewPath("roleRef"), ref, "field is immutable"))
		}
	}
	return errs, nil
}

func (g *Guard) judge(obj, old *document.Document) field.ErrorList {
	if g.binds() {
		return validateBinding(obj, g.namespaced())
	}
	return validateRole(obj, old, g.namespaced())
}

// permit returns Forbidden when the client grants what it has not. It looks at what will be stored, after all that
// changes an object.
func (g *Guard) permit(ctx context.Context, obj, old *document.Document) error {
	if unbounded(ctx) || (old != nil && changesOwnershipAlone(obj, old)) {
		return nil
	}
	var err error
	if g.binds() {
		err = g.permitBinding(ctx, obj)
	} else {
		err = g.permitRole(ctx, obj, old)
	}
	var status apierrors.APIStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: g.resource}, rest.MetaOf(obj).Name(), err)
}

func (g *Guard) permitRole(ctx context.Context, obj, old *document.Document) error {
	if g.escalation.mayEscalate(ctx) {
		return nil
	}
	var rules []rbacv1.PolicyRule
	if err := unmarshal(obj.Get("rules"), &rules); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("rules: %v", err))
	}
	if err := g.escalation.covers(ctx, rules); err != nil {
		return err
	}
	// An aggregationRule can gather anything, and taking one away can keep a role from being tightened.
	if aggregates(obj) || (old != nil && aggregates(old)) {
		everything := []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		}
		if g.escalation.covers(ctx, everything) != nil {
			return errors.New("must have cluster-admin privileges to use the aggregationRule")
		}
	}
	return nil
}

func aggregates(obj *document.Document) bool {
	return obj.Get("aggregationRule", "clusterRoleSelectors").Len() > 0
}

func (g *Guard) permitBinding(ctx context.Context, obj *document.Document) error {
	var ref rbacv1.RoleRef
	if err := unmarshal(obj.Get("roleRef"), &ref); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("roleRef: %v", err))
	}
	namespace := ""
	if g.namespaced() {
		namespace, _ = request.NamespaceFrom(ctx)
	}
	if g.escalation.mayBind(ctx, ref, namespace) {
		return nil
	}
	if ref.Kind != "ClusterRole" && (ref.Kind != "Role" || !g.namespaced()) {
		return nil // it binds nothing and will be refused by validation
	}
	rules, err := g.escalation.Index.RulesOf(ref, namespace)
	if err != nil {
		return err
	}
	return g.escalation.covers(ctx, rules)
}

// changesOwnershipAlone reports whether obj differs from old in what the garbage collector writes alone.
func changesOwnershipAlone(obj, old *document.Document) bool {
	e := obj.Edit()
	for _, name := range []string{"ownerReferences", "finalizers", "managedFields", "resourceVersion", "selfLink"} {
		e.Set(old.Get("metadata", name), "metadata", name)
	}
	same, err := e.Document()
	return err == nil && same.Equal(old)
}

// unmarshal decodes a value; an absent one leaves into as it is.
func unmarshal(v document.Value, into any) error {
	if !v.Exists() {
		return nil
	}
	return json.Unmarshal(v.Raw(), into)
}
