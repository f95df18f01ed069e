package discovery

import (
	"cmp"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"weir.dev/weir/server/rest"
)

// Index is what discovery says of one catalog. It is immutable.
type Index struct {
	// Core are the versions of the group without a name, the preferred one first.
	Core []string
	// Groups are the named groups in upstream's order.
	Groups []metav1.APIGroup
	// CoreDiscovery and GroupDiscovery are the aggregated forms of /api and /apis.
	CoreDiscovery, GroupDiscovery *apidiscovery.APIGroupDiscoveryList

	resources map[schema.GroupVersion]*metav1.APIResourceList
}

// New derives the Index of a catalog.
func New(catalog rest.Catalog) *Index {
	x := &Index{
		Groups:         []metav1.APIGroup{},
		CoreDiscovery:  newDiscoveryList(),
		GroupDiscovery: newDiscoveryList(),
		resources:      map[schema.GroupVersion]*metav1.APIResourceList{},
	}
	for _, g := range groupsOf(catalog) {
		aggregated := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			gv := schema.GroupVersion{Group: g.name, Version: v}
			x.resources[gv] = resourceList(gv, g.resources)
			aggregated.Versions = append(aggregated.Versions, versionDiscovery(gv, g.resources))
		}
		if g.name == "" {
			x.Core = g.versions
			x.CoreDiscovery.Items = append(x.CoreDiscovery.Items, aggregated)
			continue
		}
		x.Groups = append(x.Groups, g.apiGroup())
		x.GroupDiscovery.Items = append(x.GroupDiscovery.Items, aggregated)
	}
	return x
}

// Group returns what /apis/{group} says, nil where there is none.
func (x *Index) Group(name string) *metav1.APIGroup {
	for i := range x.Groups {
		if x.Groups[i].Name == name {
			group := x.Groups[i]
			group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return &group
		}
	}
	return nil
}

// Resources returns what /api/{version} and /apis/{group}/{version} say, nil where there is none.
func (x *Index) Resources(gv schema.GroupVersion) *metav1.APIResourceList { return x.resources[gv] }

// GroupVersions returns all that are served, in order.
func (x *Index) GroupVersions() []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, v := range x.Core {
		all = append(all, schema.GroupVersion{Version: v})
	}
	for _, g := range x.Groups {
		for _, v := range g.Versions {
			all = append(all, schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	return all
}

func newDiscoveryList() *apidiscovery.APIGroupDiscoveryList {
	return &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscovery.SchemeGroupVersion.String()},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
}

// group is a group of the catalog.
type group struct {
	name     string
	versions []string
	// resources sorted by name.
	resources []*rest.Resource
}

// groupsOf collects the groups of a catalog, by priority and then name.
func groupsOf(catalog rest.Catalog) []*group {
	byName := map[string]*group{}
	var groups []*group
	for _, r := range catalog.Resources() {
		g := byName[r.Group]
		if g == nil {
			g = &group{name: r.Group}
			byName[r.Group] = g
			groups = append(groups, g)
		}
		g.resources = append(g.resources, r)
		for _, v := range r.Versions {
			if !slices.Contains(g.versions, v.Name) {
				g.versions = append(g.versions, v.Name)
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g *group) bool { return len(g.versions) == 0 })
	for _, g := range groups {
		slices.SortFunc(g.versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
		slices.SortFunc(g.resources, func(a, b *rest.Resource) int { return cmp.Compare(a.Name, b.Name) })
	}
	slices.SortStableFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(priority(b.name), priority(a.name)), cmp.Compare(a.name, b.name))
	})
	return groups
}

// priority orders groups as kube-aggregator does: kubectl takes the first group
// that has a resource of the name it was given.
func priority(group string) int {
	switch group {
	case "":
		return 18000
	case "apps":
		return 17800
	case "events.k8s.io":
		return 17750
	case "authentication.k8s.io":
		return 17700
	case "authorization.k8s.io":
		return 17600
	case "autoscaling":
		return 17500
	case "batch":
		return 17400
	case "certificates.k8s.io":
		return 17300
	case "networking.k8s.io":
		return 17200
	case "policy":
		return 17100
	case "rbac.authorization.k8s.io":
		return 17000
	case "storage.k8s.io":
		return 16800
	case "apiextensions.k8s.io", "admissionregistration.k8s.io":
		return 16700
	case "scheduling.k8s.io":
		return 16600
	case "coordination.k8s.io":
		return 16500
	case "node.k8s.io":
		return 16300
	case "discovery.k8s.io":
		return 16200
	case "flowcontrol.apiserver.k8s.io":
		return 16100
	default:
		return 1000
	}
}

func (g *group) apiGroup() metav1.APIGroup {
	out := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		out.Versions = append(out.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v, Version: v})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}
