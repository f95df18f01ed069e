package endpoints

import (
	"testing"

	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"

	"weir.dev/weir/server/rest"
)

func TestDiscovery(t *testing.T) {
	w := newWorld(t, Config{})
	if got := w.do(t, "GET", "/api", ""); got.get(t, "kind") != "APIVersions" || got.get(t, "versions") != `["v1"]` {
		t.Errorf("/api: %s", got.body)
	}
	if got := w.do(t, "GET", "/apis", ""); got.get(t, "kind") != "APIGroupList" || got.document(t).Get("groups").Index(0).Get("preferredVersion", "groupVersion").String() != "example.com/v2" {
		t.Errorf("/apis: %s", got.body)
	}
	if got := w.do(t, "GET", "/apis/example.com", ""); got.get(t, "kind") != "APIGroup" {
		t.Errorf("/apis/example.com: %s", got.body)
	}
	got := w.do(t, "GET", "/apis/example.com/v1", "").document(t)
	if r := got.Get("resources").Index(0); r.Get("name").String() != "widgets" || string(r.Get("verbs").Raw()) != `["create","delete","deletecollection","get","list","patch","update","watch"]` {
		t.Errorf("/apis/example.com/v1: %s", got.Bytes())
	}
	if r := got.Get("resources").Index(1); r.Get("name").String() != "widgets/status" || string(r.Get("verbs").Raw()) != `["get","patch","update"]` {
		t.Errorf("/apis/example.com/v1: %s", got.Bytes())
	}
	for _, path := range []string{"/apis/nope", "/apis/nope/v1", "/api/v9"} {
		if got := w.do(t, "GET", path, ""); got.code != 404 {
			t.Errorf("%s: %d", path, got.code)
		}
	}
}

func TestAggregatedDiscovery(t *testing.T) {
	w := newWorld(t, Config{})
	accept := "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	got := w.do(t, "GET", "/apis", "", accept)
	if got.header.Get("Content-Type") != "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" {
		t.Fatalf("%v %s", got.header, got.body)
	}
	etag := got.header.Get("ETag")
	if again := w.do(t, "GET", "/apis", "", accept, "If-None-Match: "+etag); again.code != 304 || again.body != "" {
		t.Errorf("unchanged: %d %s", again.code, again.body)
	}
	w.catalog.resources = append(w.catalog.resources, &rest.Resource{
		Group: "later.io", Name: "things", Singular: "thing", Kind: "Thing", StorageVersion: "v1",
		Versions: []*rest.Version{{Name: "v1", Storage: w.widgets}},
	})
	w.catalog.generation++
	if later := w.do(t, "GET", "/apis", "", accept, "If-None-Match: "+etag); later.code != 200 || later.header.Get("ETag") == etag {
		t.Errorf("changed: %d", later.code)
	}
}

func TestClientGoDiscovers(t *testing.T) {
	w := newWorld(t, Config{})
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: w.URL})
	if err != nil {
		t.Fatal(err)
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 2 || len(lists) != 3 {
		t.Errorf("%d groups, %d lists", len(groups), len(lists))
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if r.Kind == "" || len(r.Verbs) == 0 {
				t.Errorf("%s: %+v", list.GroupVersion, r)
			}
		}
	}
}
