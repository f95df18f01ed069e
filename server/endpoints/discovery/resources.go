package discovery

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/rest"
)

// Verbs returns, sorted, the verbs that a Storage serves.
func Verbs(storage any) []string {
	verbs := []string{}
	add := func(ok bool, names ...string) {
		if ok {
			verbs = append(verbs, names...)
		}
	}
	_, ok := storage.(rest.Creater)
	_, named := storage.(rest.NamedCreater)
	add(ok || named, "create")
	_, ok = storage.(rest.GracefulDeleter)
	add(ok, "delete")
	_, ok = storage.(rest.CollectionDeleter)
	add(ok, "deletecollection")
	_, ok = storage.(rest.Getter)
	add(ok, "get")
	_, ok = storage.(rest.Lister)
	add(ok, "list")
	_, ok = storage.(rest.Updater)
	add(ok, "patch", "update")
	_, ok = storage.(rest.Watcher)
	add(ok, "watch")
	return verbs
}

// subresources returns those of a version that serve a verb, sorted by name.
func subresources(v *rest.Version) []*rest.Subresource {
	var subs []*rest.Subresource
	for _, sub := range v.Subresources {
		if sub.Storage != nil && len(Verbs(sub.Storage)) > 0 {
			subs = append(subs, sub)
		}
	}
	slices.SortFunc(subs, func(a, b *rest.Subresource) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return subs
}

// resourceList is the APIResourceList of a group version.
func resourceList(gv schema.GroupVersion, resources []*rest.Resource) *metav1.APIResourceList {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: gv.String(),
		APIResources: []metav1.APIResource{},
	}
	for _, r := range resources {
		v := r.Version(gv.Version)
		if v == nil {
			continue
		}
		if verbs := Verbs(v.Storage); len(verbs) > 0 {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name:               r.Name,
				SingularName:       r.Singular,
				Namespaced:         r.Namespaced,
				Kind:               r.Kind,
				Verbs:              verbs,
				ShortNames:         r.ShortNames,
				Categories:         r.Categories,
				StorageVersionHash: storageVersionHash(r),
			})
		}
		for _, sub := range subresources(v) {
			resource := metav1.APIResource{
				Name:       r.Name + "/" + sub.Name,
				Namespaced: r.Namespaced,
				Kind:       r.Kind,
				Verbs:      Verbs(sub.Storage),
			}
			if sub.Kind != "" {
				resource.Kind = sub.Kind
				if sub.Group != gv.Group || sub.Version != gv.Version {
					resource.Group, resource.Version = sub.Group, sub.Version
				}
			}
			list.APIResources = append(list.APIResources, resource)
		}
	}
	return list
}

// versionDiscovery is the aggregated form of a group version. A responseKind is
// never nil: clients panic on one.
func versionDiscovery(gv schema.GroupVersion, resources []*rest.Resource) apidiscovery.APIVersionDiscovery {
	out := apidiscovery.APIVersionDiscovery{
		Version:   gv.Version,
		Freshness: apidiscovery.DiscoveryFreshnessCurrent,
		Resources: []apidiscovery.APIResourceDiscovery{},
	}
	for _, r := range resources {
		v := r.Version(gv.Version)
		if v == nil {
			continue
		}
		verbs, subs := Verbs(v.Storage), subresources(v)
		if len(verbs) == 0 && len(subs) == 0 {
			continue
		}
		resource := apidiscovery.APIResourceDiscovery{
			Resource:         r.Name,
			ResponseKind:     &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: r.Kind},
			Scope:            apidiscovery.ScopeCluster,
			SingularResource: r.Singular,
			Verbs:            verbs,
			ShortNames:       r.ShortNames,
			Categories:       r.Categories,
		}
		if r.Namespaced {
			resource.Scope = apidiscovery.ScopeNamespace
		}
		for _, sub := range subs {
			kind := *resource.ResponseKind
			if sub.Kind != "" {
				kind = metav1.GroupVersionKind(sub.GroupVersionKind)
			}
			resource.Subresources = append(resource.Subresources, apidiscovery.APISubresourceDiscovery{
				Subresource:  sub.Name,
				ResponseKind: &kind,
				Verbs:        Verbs(sub.Storage),
			})
		}
		out.Resources = append(out.Resources, resource)
	}
	return out
}

// storageVersionHash tells a storage migrator that the stored version changed.
func storageVersionHash(r *rest.Resource) string {
	sum := sha256.Sum256([]byte(r.Group + "/" + r.StorageVersion + "/" + r.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
