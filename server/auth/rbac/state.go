package rbac

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// state is all roles and bindings at one time. It is immutable: the methods whose names begin with "with" or
// "without" return another one.
type state struct {
	roles        table[objectKey, *role]
	clusterRoles table[string, *role] // Invariant: rules of the aggregated ones are up to date
	// aggregates are the names of the ClusterRoles that each aggregated ClusterRole gathers, sorted.
	aggregates map[string][]string
	bindings   table[objectKey, *binding]
	// grants of each subject, sorted by name.
	grants table[subject, []grant]
}

func (s *state) withRoles(roles map[objectKey]*role) *state {
	next := *s
	next.roles = newTable(roles)
	return &next
}

func (s *state) withRole(key objectKey, r *role) *state {
	next := *s
	if r == nil {
		next.roles = s.roles.without(key)
	} else {
		next.roles = s.roles.with(key, r)
	}
	return &next
}

func (s *state) withClusterRoles(roles map[string]*role) *state {
	next := *s
	next.clusterRoles = newTable(roles)
	next.aggregates = map[string][]string{}
	for name, r := range roles {
		if r.selectors != nil {
			next.aggregates[name] = next.gathered(name, r)
		}
	}
	next.aggregate(slices.Collect(maps.Keys(next.aggregates)))
	return &next
}

// withClusterRole returns the state with r, nil: without, and what follows for the roles that gather it.
func (s *state) withClusterRole(name string, r *role) *state {
	next := *s
	old, _ := s.clusterRoles.get(name)
	next.aggregates = maps.Clone(s.aggregates)
	if next.aggregates == nil {
		next.aggregates = map[string][]string{}
	}
	var stale []string // aggregated roles whose members changed
	if r == nil {
		next.clusterRoles = s.clusterRoles.without(name)
		delete(next.aggregates, name)
	} else {
		next.clusterRoles = s.clusterRoles.with(name, r)
		delete(next.aggregates, name)
		if r.selectors != nil {
			next.aggregates[name] = next.gathered(name, r)
			stale = append(stale, name)
		}
	}
	for other, members := range next.aggregates {
		if other == name {
			continue
		}
		by, _ := next.clusterRoles.get(other)
		is := by.gathers(r)
		if !is && !by.gathers(old) {
			continue
		}
		stale = append(stale, other)
		i, was := slices.BinarySearch(members, name)
		switch {
		case is && !was:
			next.aggregates[other] = slices.Insert(slices.Clone(members), i, name)
		case !is && was:
			next.aggregates[other] = slices.Delete(slices.Clone(members), i, i+1)
		}
	}
	next.aggregate(stale)
	return &next
}

// gathered returns the names of the ClusterRoles that the aggregated role selects, itself apart, sorted.
func (s *state) gathered(name string, by *role) []string {
	var out []string
	for other, r := range s.clusterRoles.all {
		if other != name && by.gathers(r) {
			out = append(out, other)
		}
	}
	slices.Sort(out)
	return out
}

// aggregate computes the rules of the aggregated roles stale and of those that gather them. The
// caller owns s: it is not published yet.
func (s *state) aggregate(stale []string) {
	again := map[string]bool{}
	for len(stale) > 0 {
		name := stale[len(stale)-1]
		stale = stale[:len(stale)-1]
		if again[name] {
			continue
		}
		again[name] = true
		for other, members := range s.aggregates {
			if _, ok := slices.BinarySearch(members, name); ok {
				stale = append(stale, other)
			}
		}
	}
	for name := range again {
		r, _ := s.clusterRoles.get(name)
		computed := *r
		computed.rules = nil
		s.collect(name, &computed.rules, map[string]bool{}, map[string]bool{})
		s.clusterRoles = s.clusterRoles.with(name, &computed)
	}
}

// collect appends the rules of a ClusterRole, or of all that it gathers, each rule once. Roles that gather
// one another have the same rules.
func (s *state) collect(name string, rules *[]rbacv1.PolicyRule, visited, seen map[string]bool) {
	if visited[name] {
		return
	}
	visited[name] = true
	if members, ok := s.aggregates[name]; ok {
		for _, member := range members {
			s.collect(member, rules, visited, seen)
		}
		return
	}
	r, ok := s.clusterRoles.get(name)
	if !ok {
		return
	}
	for i := range r.rules {
		if id := identity(&r.rules[i]); !seen[id] {
			seen[id] = true
			*rules = append(*rules, r.rules[i])
		}
	}
}

// identity is a text that two rules share only when they are equal.
func identity(r *rbacv1.PolicyRule) string {
	var b strings.Builder
	for _, list := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		for _, v := range list {
			b.WriteString(v)
			b.WriteByte(0)
		}
		b.WriteByte(1)
	}
	return b.String()
}

// withBindings replaces the bindings of the cluster, or those of all namespaces.
func (s *state) withBindings(list []*binding, cluster bool) *state {
	next := *s
	objects := map[objectKey]*binding{}
	for key, b := range s.bindings.all {
		if (key.namespace == "") != cluster {
			objects[key] = b
		}
	}
	for _, b := range list {
		objects[b.objectKey] = b
	}
	grants := map[subject][]grant{}
	for _, b := range objects {
		for who, g := range b.grants() {
			grants[who] = append(grants[who], g)
		}
	}
	for _, list := range grants {
		slices.SortFunc(list, func(a, b grant) int { return strings.Compare(a.name, b.name) })
	}
	next.bindings, next.grants = newTable(objects), newTable(grants)
	return &next
}

// withBinding returns the state with b at key, nil: without.
func (s *state) withBinding(key objectKey, b *binding) *state {
	next := *s
	var now map[subject]grant
	if b == nil {
		next.bindings = s.bindings.without(key)
	} else {
		now = b.grants()
		next.bindings = s.bindings.with(key, b)
	}
	if old, ok := s.bindings.get(key); ok {
		for who := range old.keys() {
			if _, stays := now[who]; stays {
				continue
			}
			list, _ := next.grants.get(who)
			if list = withoutGrant(list, key.name); len(list) == 0 {
				next.grants = next.grants.without(who)
			} else {
				next.grants = next.grants.with(who, list)
			}
		}
	}
	for who, g := range now {
		list, _ := next.grants.get(who)
		next.grants = next.grants.with(who, withGrant(list, g))
	}
	return &next
}
