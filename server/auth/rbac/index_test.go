package rbac

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// newTestIndex returns an Index that is synced and follows nothing.
func newTestIndex() *Index {
	x := NewIndex(slog.New(slog.DiscardHandler))
	close(x.synced)
	return x
}

func doc(t testing.TB, v any) *document.Document {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// put and drop tell the index of one change, as a follower does.
func put(t testing.TB, x *Index, resource string, obj any) {
	t.Helper()
	x.handler(resource).Change(rest.Event{Type: "MODIFIED", Object: doc(t, obj)})
}

func drop(t testing.TB, x *Index, resource string, obj any) {
	t.Helper()
	x.handler(resource).Change(rest.Event{Type: "DELETED", Object: doc(t, obj)})
}

func clusterRole(name string, labels map[string]string, rules ...string) *rbacv1.ClusterRole {
	out := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, r := range rules {
		out.Rules = append(out.Rules, rule(r))
	}
	return out
}

func aggregate(name string, labels map[string]string, selects ...string) *rbacv1.ClusterRole {
	out := clusterRole(name, labels, "own own own")
	out.AggregationRule = &rbacv1.AggregationRule{}
	for _, label := range selects {
		out.AggregationRule.ClusterRoleSelectors = append(out.AggregationRule.ClusterRoleSelectors,
			metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}})
	}
	return out
}

// subjects reads "User:x", "Group:x", "ServiceAccount:namespace:x" and "ServiceAccount::x".
func subjects(list ...string) []rbacv1.Subject {
	var out []rbacv1.Subject
	for _, text := range list {
		parts := strings.SplitN(text, ":", 2)
		s := rbacv1.Subject{Kind: parts[0], Name: parts[1], APIGroup: rbacv1.GroupName}
		if s.Kind == rbacv1.ServiceAccountKind {
			s.APIGroup = ""
			s.Namespace, s.Name, _ = strings.Cut(parts[1], ":")
		}
		out = append(out, s)
	}
	return out
}

func clusterBinding(name, role string, who ...string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects(who...)}
}

func roleBinding(namespace, name, kind, role string, who ...string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: subjects(who...)}
}

func namespacedRole(namespace, name string, rules ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: clusterRole("", nil, rules...).Rules}
}

// decide asks "user[,group…] [namespace:]question".
func decide(t testing.TB, x *Index, who, namespace, question string) (bool, string) {
	t.Helper()
	names := strings.Split(who, ",")
	a := ask(question)
	a.User = &user.DefaultInfo{Name: names[0], Groups: names[1:]}
	a.Namespace = namespace
	decision, reason, err := NewAuthorizer(x).Authorize(t.Context(), a)
	if err != nil || decision == authorizer.DecisionDeny {
		t.Fatalf("decision %v, error %v: a rule can only allow", decision, err)
	}
	return decision == authorizer.DecisionAllow, reason
}

func TestAuthorize(t *testing.T) {
	x := newTestIndex()
	put(t, x, ClusterRoles, clusterRole("reader", nil, "get,list - pods", "get /metrics"))
	put(t, x, ClusterRoles, clusterRole("writer", nil, "create - pods"))
	put(t, x, Roles, namespacedRole("ns", "local", "delete - pods"))
	put(t, x, ClusterRoleBindings, clusterBinding("everywhere", "reader", "User:ann", "Group:staff", "ServiceAccount:ns:robot", "ServiceAccount::nobody", "Robot:r2"))
	put(t, x, RoleBindings, roleBinding("ns", "writers", "ClusterRole", "writer", "Group:staff", "ServiceAccount::local"))
	put(t, x, RoleBindings, roleBinding("ns", "deleters", "Role", "local", "User:ann", "Group:ann"))
	put(t, x, ClusterRoleBindings, clusterBinding("lost", "gone", "User:lost"))
	put(t, x, RoleBindings, roleBinding("ns", "lost", "Role", "gone", "User:lost"))
	put(t, x, RoleBindings, roleBinding("ns", "odd", "Lore", "x", "User:odd"))

	tests := []struct {
		who, namespace, question string
		allowed                  bool
		reason                   string
	}{
		{"ann", "ns", "get - pods p", true, `RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to User "ann"`},
		{"ann", "", "list - pods", true, `RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to User "ann"`},
		{"ann", "", "get /metrics", true, `RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to User "ann"`},
		{"bob,staff", "other", "get - pods", true, `RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to Group "staff"`},
		{"bob", "ns", "get - pods", false, ""},
		{"staff", "ns", "get - pods", false, ""},
		{"bob,ann", "", "get - pods", false, ""},
		{"bob,staff", "ns", "create - pods", true, `RBAC: allowed by RoleBinding "writers/ns" of ClusterRole "writer" to Group "staff"`},
		{"bob,staff", "other", "create - pods", false, ""},
		{"bob,staff", "", "create - pods", false, ""},
		{"ann", "ns", "delete - pods", true, `RBAC: allowed by RoleBinding "deleters/ns" of Role "local" to User "ann"`},
		{"ann", "other", "delete - pods", false, ""},
		{"system:serviceaccount:ns:robot", "other", "get - pods", true, `RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to ServiceAccount "robot/ns"`},
		{"system:serviceaccount:ns:local", "ns", "create - pods", true, `RBAC: allowed by RoleBinding "writers/ns" of ClusterRole "writer" to ServiceAccount "local/ns"`},
		{"system:serviceaccount:other:local", "ns", "create - pods", false, ""},
		{"system:serviceaccount::nobody", "", "get - pods", false, ""},
		{"r2", "", "get - pods", false, ""},
		{"lost", "", "get - pods", false, `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{"lost", "ns", "get - pods", false, `RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]`},
		{"odd", "ns", "get - pods", false, `RBAC: unsupported role reference kind: "Lore"`},
	}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s %s %s", tc.who, tc.namespace, tc.question), func(t *testing.T) {
			allowed, reason := decide(t, x, tc.who, tc.namespace, tc.question)
			if allowed != tc.allowed || reason != tc.reason {
				t.Errorf("allowed %v: %s\nwant %v: %s", allowed, reason, tc.allowed, tc.reason)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	x := newTestIndex()
	expect := func(step, who, namespace, question string, want bool) {
		t.Helper()
		if got, reason := decide(t, x, who, namespace, question); got != want {
			t.Errorf("%s: %s %s is %v (%s), want %v", step, who, question, got, reason, want)
		}
	}
	b := clusterBinding("b", "r", "User:ann", "User:bob")
	put(t, x, ClusterRoleBindings, b)
	expect("no role", "ann", "", "get - pods", false)
	put(t, x, ClusterRoles, clusterRole("r", nil, "get - pods"))
	expect("role came", "ann", "", "get - pods", true)
	put(t, x, ClusterRoleBindings, clusterBinding("b", "r", "User:bob", "User:cid"))
	expect("subject went", "ann", "", "get - pods", false)
	expect("subject stayed", "bob", "", "get - pods", true)
	expect("subject came", "cid", "", "get - pods", true)
	put(t, x, ClusterRoles, clusterRole("r", nil, "list - pods"))
	expect("rule went", "bob", "", "get - pods", false)
	put(t, x, RoleBindings, roleBinding("ns", "b", "ClusterRole", "r", "User:dan"))
	expect("in its namespace", "dan", "ns", "list - pods", true)
	drop(t, x, ClusterRoleBindings, b)
	expect("binding went", "bob", "", "list - pods", false)
	expect("its namesake stayed", "dan", "ns", "list - pods", true)
	x.handler(RoleBindings).Replace(nil)
	expect("all went", "dan", "ns", "list - pods", false)
	x.handler(ClusterRoleBindings).Replace([]*document.Document{doc(t, clusterBinding("z", "r", "User:eve")), doc(t, clusterBinding("a", "r", "User:eve"))})
	expect("others came", "eve", "", "list - pods", true)
	x.handler(RoleBindings).Replace([]*document.Document{doc(t, roleBinding("ns", "b", "Role", "l", "User:fay"))})
	x.handler(Roles).Replace([]*document.Document{doc(t, namespacedRole("ns", "l", "get - pods"))})
	expect("a replace leaves the other kind", "eve", "", "list - pods", true)
	expect("namespaced", "fay", "ns", "get - pods", true)
	drop(t, x, Roles, namespacedRole("ns", "l"))
	expect("role went", "fay", "ns", "get - pods", false)
	for resource, name := range map[string]string{ClusterRoles: "r", ClusterRoleBindings: "z"} {
		if !x.Has(resource, "", name) || x.Has(resource, "", "no") {
			t.Errorf("Has is wrong about %s", resource)
		}
	}
}

// rulesOf returns the verbs of a role's rules, sorted.
func rulesOf(t *testing.T, x *Index, name string) string {
	t.Helper()
	rules, err := x.RulesOf(rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, "")
	if err != nil {
		return err.Error()
	}
	var verbs []string
	for _, r := range rules {
		verbs = append(verbs, r.Verbs...)
	}
	slices.Sort(verbs)
	return strings.Join(verbs, " ")
}

func TestAggregation(t *testing.T) {
	x := newTestIndex()
	yes := func(labels ...string) map[string]string {
		out := map[string]string{}
		for _, l := range labels {
			out[l] = "true"
		}
		return out
	}
	expect := func(step string, want map[string]string) {
		t.Helper()
		for name, rules := range want {
			if got := rulesOf(t, x, name); got != rules {
				t.Errorf("%s: %s has %q, want %q", step, name, got, rules)
			}
		}
	}
	put(t, x, ClusterRoles, aggregate("admin", nil, "to-admin"))
	put(t, x, ClusterRoles, aggregate("edit", yes("to-admin"), "to-edit"))
	expect("nothing to gather", map[string]string{"admin": "", "edit": ""})
	put(t, x, ClusterRoles, clusterRole("e", yes("to-edit"), "e g r"))
	put(t, x, ClusterRoles, clusterRole("a", yes("to-admin", "to-edit"), "a g r", "e g r"))
	expect("through another", map[string]string{"admin": "a e", "edit": "a e"})
	put(t, x, ClusterRoles, clusterRole("a", yes("to-admin"), "a2 g r"))
	expect("label went", map[string]string{"admin": "a2 e", "edit": "e"})
	put(t, x, ClusterRoles, aggregate("ring", yes("to-edit"), "to-admin"))
	expect("in a ring all have the same", map[string]string{"admin": "a2 e", "edit": "a2 e", "ring": "a2 e"})
	drop(t, x, ClusterRoles, clusterRole("e", nil))
	expect("a member went", map[string]string{"admin": "a2", "edit": "a2", "ring": "a2"})
	drop(t, x, ClusterRoles, aggregate("edit", nil))
	expect("an aggregate went", map[string]string{"admin": "a2", "ring": "a2"})
	put(t, x, ClusterRoles, clusterRole("ring", yes("to-admin"), "plain g r"))
	expect("it aggregates no more", map[string]string{"admin": "a2 plain", "ring": "plain"})
	put(t, x, ClusterRoles, aggregate("admin", nil, "nobody"))
	expect("another selector", map[string]string{"admin": ""})

	y := newTestIndex()
	y.handler(ClusterRoles).Replace([]*document.Document{
		doc(t, aggregate("admin", nil, "to-admin")), doc(t, aggregate("edit", yes("to-admin"), "to-edit")), doc(t, clusterRole("e", yes("to-edit"), "e g r"))})
	x = y
	expect("all at once", map[string]string{"admin": "e", "edit": "e"})
}

func TestRulesFor(t *testing.T) {
	x := newTestIndex()
	put(t, x, ClusterRoles, clusterRole("r", nil, "get - pods", "get /x"))
	put(t, x, ClusterRoleBindings, clusterBinding("b", "r", "User:ann", "Group:staff"))
	put(t, x, ClusterRoleBindings, clusterBinding("lost", "gone", "Group:staff"))
	resources, others, incomplete, err := NewAuthorizer(x).RulesFor(t.Context(), &user.DefaultInfo{Name: "ann", Groups: []string{"staff"}}, "ns")
	if len(resources) != 1 || len(others) != 1 || incomplete {
		t.Errorf("%d and %d rules, incomplete %v: want those of a binding once", len(resources), len(others), incomplete)
	}
	if err == nil || !strings.Contains(err.Error(), `"gone" not found`) {
		t.Errorf("error %v does not name the role that is missing", err)
	}
}

func TestNotSynced(t *testing.T) {
	x := NewIndex(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	decision, reason, err := NewAuthorizer(x).Authorize(ctx, ask("get - pods"))
	if decision != authorizer.DecisionNoOpinion || err == nil || reason != "RBAC: roles and bindings have not been loaded yet" {
		t.Errorf("%v %q %v", decision, reason, err)
	}
}

// TestHammer asks while everything changes. A user who always has a rule must never be refused it, and one who never
// has it must never get it.
func TestHammer(t *testing.T) {
	x := newTestIndex()
	put(t, x, ClusterRoles, clusterRole("steady", map[string]string{"to-all": "true"}, "get - steady"))
	put(t, x, ClusterRoles, aggregate("all", nil, "to-all"))
	put(t, x, ClusterRoleBindings, clusterBinding("steady", "all", "User:steady"))
	const writers, readers, rounds = 4, 4, 300
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range rounds {
				name := fmt.Sprint(random.IntN(20))
				switch i % 5 {
				case 0:
					put(t, x, ClusterRoles, clusterRole(name, map[string]string{"to-all": fmt.Sprint(i%2 == 0)}, "list - other"))
				case 1:
					put(t, x, ClusterRoleBindings, clusterBinding(name, name, "User:u"+name, "User:v"))
				case 2:
					put(t, x, RoleBindings, roleBinding("ns", name, "ClusterRole", name, "User:u"+name))
				case 3:
					drop(t, x, ClusterRoleBindings, clusterBinding(name, name))
				default:
					drop(t, x, ClusterRoles, clusterRole(name, nil))
				}
			}
		})
	}
	for range readers {
		wg.Go(func() {
			for i := range rounds {
				if ok, reason := decide(t, x, "steady", "ns", "get - steady"); !ok {
					t.Errorf("refused: %s", reason)
					return
				}
				if ok, reason := decide(t, x, fmt.Sprintf("u%d", i%20), "ns", "get - steady"); ok {
					t.Errorf("allowed: %s", reason)
					return
				}
			}
		})
	}
	wg.Wait()
	// What is left is what a fresh index of the same objects would have.
	s := x.state.Load()
	fresh := (&state{}).withBindings(slices.Collect(func(yield func(*binding) bool) {
		for _, b := range s.bindings.all {
			if !yield(b) {
				return
			}
		}
	}), true)
	count := 0
	for who, list := range s.grants.all {
		count++
		want, _ := fresh.grants.get(who)
		if len(list) != len(want) {
			t.Errorf("%v has %d grants, want %d", who, len(list), len(want))
		}
	}
	for who := range fresh.grants.all {
		count--
		if _, ok := s.grants.get(who); !ok {
			t.Errorf("%v has lost its grants", who)
		}
	}
	if count != 0 {
		t.Errorf("%d subjects too many", count)
	}
}

// BenchmarkAuthorize: bindings that do not concern the user cost nothing.
func BenchmarkAuthorize(b *testing.B) {
	for _, others := range []int{10, 10000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			x := newTestIndex()
			put(b, x, ClusterRoles, clusterRole("r", nil, "get - secrets", "get,list,watch - pods,services", "* apps deployments"))
			var list []*document.Document
			for i := range others {
				list = append(list, doc(b, clusterBinding(fmt.Sprint(i), "r", fmt.Sprintf("User:u%d", i))))
			}
			x.handler(ClusterRoleBindings).Replace(list)
			z := NewAuthorizer(x)
			a := ask("list - services")
			a.User = &user.DefaultInfo{Name: "u7", Groups: []string{"system:authenticated"}}
			b.ReportAllocs()
			for b.Loop() {
				if d, _, _ := z.Authorize(b.Context(), a); d != authorizer.DecisionAllow {
					b.Fatal(d)
				}
			}
		})
	}
}

func parseDoc(t testing.TB, text string) *document.Document {
	t.Helper()
	out, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}
