package rbac

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// as returns the context of a request by who ("user[,group…]") on resource in namespace.
func as(t *testing.T, who, namespace, resource, name string) context.Context {
	names := strings.Split(who, ",")
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: names[0], Groups: names[1:]})
	ctx = request.WithInfo(ctx, &request.Info{IsResourceRequest: true, APIGroup: rbacv1.GroupName, APIVersion: "v1",
		Resource: resource, Namespace: namespace, Name: name})
	return request.WithNamespace(ctx, namespace)
}

func TestEscalation(t *testing.T) {
	x := newTestIndex()
	put(t, x, ClusterRoles, clusterRole("pods", nil, "get,list,watch - pods", "get /metrics"))
	put(t, x, ClusterRoles, clusterRole("all", nil, "* * *", "* *"))
	put(t, x, ClusterRoles, clusterRole("escalator", nil, "escalate rbac.authorization.k8s.io roles,clusterroles"))
	put(t, x, ClusterRoles, clusterRole("binder", nil, "bind rbac.authorization.k8s.io clusterroles all"))
	put(t, x, Roles, namespacedRole("ns", "local", "get - pods"))
	put(t, x, ClusterRoleBindings, clusterBinding("pods", "pods", "User:pods"))
	put(t, x, ClusterRoleBindings, clusterBinding("all", "all", "User:boss"))
	put(t, x, ClusterRoleBindings, clusterBinding("escalator", "escalator", "User:escalator"))
	put(t, x, RoleBindings, roleBinding("ns", "binder", "ClusterRole", "binder", "User:binder"))
	put(t, x, RoleBindings, roleBinding("ns", "pods", "ClusterRole", "pods", "User:local"))
	put(t, x, ClusterRoleBindings, clusterBinding("lost", "gone", "User:pods"))
	escalation := &Escalation{Index: x, Authorizer: NewAuthorizer(x)}

	const denied = "is attempting to grant RBAC permissions not currently held:\n"
	tests := []struct {
		name, who, namespace, resource string
		obj, old                       any
		want                           string // of the error; "": none
	}{
		{"a member of system:masters", "root,system:masters", "", ClusterRoles, clusterRole("r", nil, "* * *"), nil, ""},
		{"what one has", "pods", "", ClusterRoles, clusterRole("r", nil, "get - pods", "get /metrics"), nil, ""},
		{"more verbs", "pods", "", ClusterRoles, clusterRole("r", nil, "get,create,delete - pods"), nil,
			denied + `{APIGroups:[""], Resources:["pods"], Verbs:["create" "delete"]}; resolution errors: [clusterroles.rbac`},
		{"what one has in the namespace", "local", "ns", Roles, namespacedRole("ns", "r", "get - pods"), nil, ""},
		{"what one has elsewhere", "local", "other", Roles, namespacedRole("other", "r", "get - pods"), nil, denied + `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"a subresource is something else", "pods", "ns", Roles, namespacedRole("ns", "r", "get - pods/log"), nil, `{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}`},
		{"the verb escalate", "escalator", "", ClusterRoles, clusterRole("r", nil, "* * *"), nil, ""},
		{"the verb escalate is no bind", "escalator", "", ClusterRoleBindings, clusterBinding("b", "all", "User:x"), nil, denied},
		{"no user", "", "", ClusterRoles, clusterRole("r", nil, "get - pods"), nil, denied},
		{"everything, with cluster-admin", "boss", "", ClusterRoles, clusterRole("r", nil, "* * *", "get /x"), nil, ""},
		{"aggregation with cluster-admin", "boss", "", ClusterRoles, aggregate("r", nil, "x"), nil, ""},
		{"aggregation", "pods", "", ClusterRoles, func() any { r := aggregate("r", nil, "x"); r.Rules = nil; return r }(), nil, "must have cluster-admin privileges to use the aggregationRule"},
		{"aggregation that goes", "pods", "", ClusterRoles, clusterRole("r", nil), aggregate("r", nil, "x"), "must have cluster-admin privileges"},
		{"an update that changes owners alone", "pods", "", ClusterRoles, func() any {
			r := clusterRole("r", nil, "* * *")
			r.Finalizers = []string{"a.b/c"}
			return r
		}(), clusterRole("r", nil, "* * *"), ""},
		{"an update of labels", "pods", "", ClusterRoles, clusterRole("r", map[string]string{"a": "b"}, "* * *"), clusterRole("r", nil, "* * *"), denied},

		{"bind to what one has", "pods", "", ClusterRoleBindings, clusterBinding("b", "pods", "User:x"), nil, ""},
		{"bind to more", "pods", "", ClusterRoleBindings, clusterBinding("b", "all", "User:x"), nil, denied + "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"},
		{"bind to nothing", "pods", "", ClusterRoleBindings, clusterBinding("b", "nothing", "User:x"), nil, `clusterroles.rbac.authorization.k8s.io "nothing" not found`},
		{"bind to a role of the namespace", "pods", "ns", RoleBindings, roleBinding("ns", "b", "Role", "local", "User:x"), nil, ""},
		{"bind to a role of another namespace", "pods", "other", RoleBindings, roleBinding("other", "b", "Role", "local", "User:x"), nil, `roles.rbac.authorization.k8s.io "local" not found`},
		{"the verb bind", "binder", "ns", RoleBindings, roleBinding("ns", "b", "ClusterRole", "all", "User:x"), nil, ""},
		{"the verb bind in another namespace", "binder", "other", RoleBindings, roleBinding("other", "b", "ClusterRole", "all", "User:x"), nil, denied},
		{"the verb bind on another role", "binder", "ns", RoleBindings, roleBinding("ns", "b", "ClusterRole", "pods", "User:x"), nil, denied},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := NewGuard(tc.resource, escalation)
			ctx := as(t, tc.who, tc.namespace, tc.resource, "")
			var err error
			if tc.old == nil {
				_, err = g.Validate(ctx, doc(t, tc.obj))
			} else {
				_, err = g.ValidateUpdate(ctx, doc(t, tc.obj), doc(t, tc.old))
			}
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && err == nil:
				t.Error("allowed")
			case err != nil && (!strings.Contains(strings.ReplaceAll(err.Error(), "clusterrole.rbac", "clusterroles.rbac"), tc.want) || !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err)):
				t.Errorf("error\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
}

func TestValidation(t *testing.T) {
	tests := []struct {
		name, resource, obj, old string
		want                     string
	}{
		{"a good role", Roles, `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`, "", ""},
		{"no rules", Roles, `{}`, "", ""},
		{"no group", Roles, `{"rules":[{"resources":["pods"],"verbs":["get"]}]}`, "", "rules[0].apiGroups: Required value: resource rules must supply at least one api group"},
		{"no resource", Roles, `{"rules":[{"apiGroups":[""],"verbs":["get"]}]}`, "", "rules[0].resources: Required value: resource rules must supply at least one resource"},
		{"a path in a role", Roles, `{"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}`, "", `rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`},
		{"a path in a clusterrole", ClusterRoles, `{"rules":[{"nonResourceURLs":["/x"],"verbs":["get"]}]}`, "", ""},
		{"both", ClusterRoles, `{"rules":[{"nonResourceURLs":["/x"],"resources":["pods"],"verbs":["get"]}]}`, "", `rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`},
		{"no selector", ClusterRoles, `{"aggregationRule":{}}`, "", "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"},
		{"a bad selector", ClusterRoles, `{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b c"}}]}}`, "", "aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value"},
		{"a good binding", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"a"},{"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"}]}`, "", ""},
		{"a Role for the cluster", ClusterRoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}`, "", `roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`},
		{"another group", RoleBindings, `{"roleRef":{"apiGroup":"x","kind":"Role","name":"r"}}`, "", `roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`},
		{"a bad name", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a/b"}}`, "", `roleRef.name: Invalid value: "a/b": may not contain '/'`},
		{"no name", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":""}}`, "", `roleRef.name: Required value`},
		{"a subject of no kind that is known", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"Robot","name":"a"}]}`, "", `subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"`},
		{"a service account of no namespace", ClusterRoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"a"}]}`, "", `subjects[0].namespace: Required value`},
		{"a service account of a group", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"a","apiGroup":"x"}]}`, "", `subjects[0].apiGroup: Unsupported value: "x": supported values: ""`},
		{"a user of another group", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"a","apiGroup":"x"}]}`, "", `subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`},
		{"another role", RoleBindings, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}`, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"s"}}`, `roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}: field is immutable`},
		{"things of other types", RoleBindings, `{"roleRef":[],"subjects":[1,{"kind":{},"name":[]}]}`, "", ""},
		{"rules of other types", ClusterRoles, `{"rules":[1,{"verbs":"x","apiGroups":{"a":1},"resources":{"a":1}}],"aggregationRule":7}`, "", ""},
	}
	x := newTestIndex()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := NewGuard(tc.resource, &Escalation{Index: x, Authorizer: NewAuthorizer(x)})
			ctx := as(t, "root,system:masters", "ns", tc.resource, "x")
			errs, err := g.Validate(ctx, parseDoc(t, tc.obj))
			if tc.old != "" {
				errs, err = g.ValidateUpdate(ctx, parseDoc(t, tc.obj), parseDoc(t, tc.old))
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("errors %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	g := NewGuard(RoleBindings, nil)
	if !g.Implements().Has(rest.HookDefault) || NewGuard(Roles, nil).Implements().Has(rest.HookDefault) {
		t.Error("bindings have defaults, roles none")
	}
	in := parseDoc(t, `{"roleRef":{"apiGroup":"","kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"Group","name":"g","apiGroup":""},{"kind":"ServiceAccount","name":"s"},{"kind":"User","name":"x","apiGroup":"mine"}]}`)
	want := parseDoc(t, `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"},{"kind":"Group","name":"g","apiGroup":"rbac.authorization.k8s.io"},{"kind":"ServiceAccount","name":"s"},{"kind":"User","name":"x","apiGroup":"mine"}]}`)
	got, err := g.Default(t.Context(), in)
	if err != nil || !got.Equal(want) {
		t.Errorf("%s, %v", got.Bytes(), err)
	}
	again, err := g.Default(t.Context(), got)
	if err != nil || again != got {
		t.Errorf("a second time changed it: %v", err)
	}
}
