package discovery

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

type getter struct{}

func (getter) Get(context.Context, string, *metav1.GetOptions) (*document.Document, error) {
	return nil, nil
}

type catalog []*rest.Resource

func (c catalog) Resource(string, string) *rest.Resource { return nil }
func (c catalog) Resources() []*rest.Resource            { return c }
func (c catalog) Generation() uint64                     { return 1 }

func resource(group, name string, versions ...string) *rest.Resource {
	r := &rest.Resource{Group: group, Name: name, Kind: name, StorageVersion: versions[0]}
	for _, v := range versions {
		r.Versions = append(r.Versions, &rest.Version{Name: v, Storage: getter{}, Subresources: map[string]*rest.Subresource{
			"scale": {Name: "scale", GroupVersionKind: schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Storage: getter{}},
			"dead":  {Name: "dead"},
		}})
	}
	return r
}

func TestOrder(t *testing.T) {
	x := New(catalog{resource("zoo.io", "z", "v1"), resource("apps", "d", "v1"), resource("", "p", "v1"), resource("abc.io", "a", "v1beta1", "v2", "v1", "v1alpha1"), resource("batch", "j", "v1")})
	var got []string
	for _, gv := range x.GroupVersions() {
		got = append(got, gv.String())
	}
	want := []string{"v1", "apps/v1", "batch/v1", "abc.io/v2", "abc.io/v1", "abc.io/v1beta1", "abc.io/v1alpha1", "zoo.io/v1"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if x.Group("apps") == nil || x.Group("nope") != nil || x.Resources(schema.GroupVersion{Group: "nope", Version: "v1"}) != nil {
		t.Error("groups are not found as they should")
	}
}

func TestSubresources(t *testing.T) {
	x := New(catalog{resource("abc.io", "a", "v1")})
	list := x.Resources(schema.GroupVersion{Group: "abc.io", Version: "v1"}).APIResources
	if len(list) != 2 || list[1].Name != "a/scale" || list[1].Group != "autoscaling" || list[1].Kind != "Scale" {
		t.Errorf("%+v", list)
	}
	aggregated := x.GroupDiscovery.Items[0].Versions[0].Resources[0]
	if aggregated.ResponseKind == nil || len(aggregated.Subresources) != 1 || aggregated.Subresources[0].ResponseKind.Kind != "Scale" {
		t.Errorf("%+v", aggregated)
	}
}
