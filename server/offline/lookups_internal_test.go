package offline

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/server/rest"
)

// TestLookups: a resource is found by the plural that it has, and what a server refuses is refused.
func TestLookups(t *testing.T) {
	var stores struct{ rest.Strategy }
	s := &Set{resources: map[schema.GroupResource]*rest.Resource{}, objects: map[schema.GroupResource][]*document.Document{}}
	for _, r := range []*rest.Resource{
		{Group: "example.com", Name: "people", Kind: "Person", Namespaced: true},
		{Name: "namespaces", Kind: "Namespace"},
		{Name: "secrets", Kind: "Secret", Namespaced: true},
		{Group: "authentication.k8s.io", Name: "tokenreviews", Kind: "TokenReview"},
	} {
		m := memory{resource: r}
		if r.Kind != "TokenReview" {
			m.strategy = stores
		}
		r.Versions = []*rest.Version{{Name: "v1", Storage: m}}
		s.resources[r.GroupResource()] = r
	}
	for gr, text := range map[schema.GroupResource]string{
		{Group: "example.com", Resource: "people"}: `{"apiVersion":"example.com/v1","kind":"Person","metadata":{"name":"eve","namespace":"default"}}`,
		{Resource: "namespaces"}:                   `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"}}`,
	} {
		d, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s.objects[gr] = append(s.objects[gr], d)
	}
	found, err := s.lookups()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		asked abi.LookupRequest
		items int
		err   error
	}{
		{name: "one of another plural than its kind has", asked: abi.LookupRequest{Group: "example.com", Resource: "people", Namespace: "default", Name: "eve"}, items: 1},
		{name: "all of it", asked: abi.LookupRequest{Group: "example.com", Resource: "people"}, items: 1},
		{name: "the plural that it might have had", asked: abi.LookupRequest{Group: "example.com", Resource: "persons"}, err: abi.EINVAL},
		{name: "in the cluster", asked: abi.LookupRequest{Resource: "namespaces", Name: "default"}, items: 1},
		{name: "known, and none is there", asked: abi.LookupRequest{Resource: "secrets"}},
		{name: "not known", asked: abi.LookupRequest{Resource: "secretz"}, err: abi.EINVAL},
		{name: "a name without its namespace", asked: abi.LookupRequest{Resource: "secrets", Name: "a"}, err: abi.EINVAL},
		{name: "a namespace of what has none", asked: abi.LookupRequest{Resource: "namespaces", Namespace: "default"}, err: abi.EINVAL},
		{name: "what is not stored", asked: abi.LookupRequest{Group: "authentication.k8s.io", Resource: "tokenreviews"}, err: abi.EINVAL},
		{name: "a selector that does not parse", asked: abi.LookupRequest{Resource: "secrets", LabelSelector: "a=="}, items: 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.asked.Limit = 10
			got, err := found.Lookup(context.Background(), &lookup.Query{LookupRequest: tc.asked})
			if !errors.Is(err, tc.err) || err == nil && len(got.Items) != tc.items {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
