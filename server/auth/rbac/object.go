package rbac

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// objectKey names a role or binding; namespace is "" for those of the cluster.
type objectKey struct{ namespace, name string }

func keyOf(obj *document.Document) objectKey {
	m := rest.MetaOf(obj)
	return objectKey{m.Namespace(), m.Name()}
}

// role is a Role or ClusterRole. It is immutable.
type role struct {
	labels labels.Set
	// rules in force: those of the object, or what an aggregationRule gathered.
	rules []rbacv1.PolicyRule
	// selectors of the aggregationRule; nil: the object has none.
	selectors []labels.Selector
}

func readRole(obj *document.Document) (*role, error) {
	var in struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
		Rules           []rbacv1.PolicyRule     `json:"rules"`
		AggregationRule *rbacv1.AggregationRule `json:"aggregationRule"`
	}
	if err := json.Unmarshal(obj.Bytes(), &in); err != nil {
		return nil, err
	}
	out := &role{labels: in.Metadata.Labels, rules: in.Rules}
	if in.AggregationRule == nil {
		return out, nil
	}
	// What an object with an aggregationRule says itself is overwritten upstream, so it does not count here.
	out.rules, out.selectors = nil, []labels.Selector{}
	for i := range in.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&in.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("aggregationRule.clusterRoleSelectors[%d]: %w", i, err)
		}
		out.selectors = append(out.selectors, selector)
	}
	return out, nil
}

// gathers reports whether the aggregationRule of r selects other. A nil other is selected by none.
func (r *role) gathers(other *role) bool {
	return other != nil && slices.ContainsFunc(r.selectors, func(s labels.Selector) bool { return s.Matches(other.labels) })
}

// subject is who a binding is for, as requests name it: a service account is the user that it
// appears as. It belongs to a namespace, or to the cluster ("").
type subject struct {
	namespace string // of the binding
	group     bool   // name is that of a group, else of a user
	name      string
}

// binding is a RoleBinding or ClusterRoleBinding. It is immutable.
type binding struct {
	objectKey
	roleKind, roleName string
	subjects           []rbacv1.Subject
}

func readBinding(obj *document.Document) (*binding, error) {
	var in struct {
		RoleRef  rbacv1.RoleRef   `json:"roleRef"`
		Subjects []rbacv1.Subject `json:"subjects"`
	}
	if err := json.Unmarshal(obj.Bytes(), &in); err != nil {
		return nil, err
	}
	return &binding{objectKey: keyOf(obj), roleKind: in.RoleRef.Kind, roleName: in.RoleRef.Name, subjects: in.Subjects}, nil
}

// keys returns the subjects of b, each once, with its place among those of the object.
func (b *binding) keys() map[subject]int {
	out := make(map[subject]int, len(b.subjects))
	for i, s := range b.subjects {
		key := subject{namespace: b.namespace, name: s.Name}
		switch s.Kind {
		case rbacv1.UserKind:
		case rbacv1.GroupKind:
			key.group = true
		case rbacv1.ServiceAccountKind:
			namespace := s.Namespace
			if namespace == "" {
				namespace = b.namespace
			}
			if namespace == "" {
				continue
			}
			key.name = serviceaccount.MakeUsername(namespace, s.Name)
		default:
			continue
		}
		if _, ok := out[key]; !ok {
			out[key] = i
		}
	}
	return out
}

// grant is a binding as one of its subjects has it.
type grant struct {
	*binding
	// reason words the grant as upstream does in the reason of a decision.
	reason string
}

// grants returns what b gives, by subject.
func (b *binding) grants() map[subject]grant {
	out := b.keys()
	grants := make(map[subject]grant, len(out))
	for who, i := range out {
		grants[who] = grant{b, "RBAC: allowed by " + b.describe(i)}
	}
	return grants
}

func (b *binding) describe(subject int) string {
	s := b.subjects[subject]
	who := fmt.Sprintf("%s %q", s.Kind, s.Name)
	if s.Kind == rbacv1.ServiceAccountKind {
		namespace := s.Namespace
		if namespace == "" {
			namespace = b.namespace
		}
		who = fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+namespace)
	}
	if b.namespace == "" {
		return fmt.Sprintf("ClusterRoleBinding %q of %s %q to %s", b.name, b.roleKind, b.roleName, who)
	}
	return fmt.Sprintf("RoleBinding %q of %s %q to %s", b.name+"/"+b.namespace, b.roleKind, b.roleName, who)
}

// withGrant returns list, sorted by name, with g in place of one of the same name.
func withGrant(list []grant, g grant) []grant {
	i, found := slices.BinarySearchFunc(list, g.name, func(have grant, name string) int { return strings.Compare(have.name, name) })
	out := slices.Clone(list)
	if found {
		out[i] = g
		return out
	}
	return slices.Insert(out, i, g)
}

// withoutGrant returns list without the binding of that name.
func withoutGrant(list []grant, name string) []grant {
	return slices.DeleteFunc(slices.Clone(list), func(have grant) bool { return have.name == name })
}
