package server_test

import (
	"net/http"
	"strings"
	"testing"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// Of a definition whose versions a webhook converts, as kube-apiserver may have stored one, only the storage version is served,
// and that only where all objects are stored in it: renamed objects would lose their fields with the next write.
func TestConvertedRowsOfKubeAPIServer(t *testing.T) {
	const definition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"PLURAL.example.com","uid":"uid-PLURAL","generation":1},
		"spec":{"group":"example.com","version":"v1","names":{"plural":"PLURAL","singular":"SINGULAR","kind":"KIND","listKind":"KINDList"},"scope":"Namespaced","versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer"}}}}},
			{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{"bigness":{"type":"integer"}}}}}],
		"conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://127.0.0.1:1/convert","caBundle":"YQ=="},"conversionReviewVersions":["v1"]},"preserveUnknownFields":false},
		"status":{"acceptedNames":{"plural":"PLURAL","singular":"SINGULAR","kind":"KIND","listKind":"KINDList"},"storedVersions":[STORED]}}`
	etcd, address := startEtcd(t)
	for plural, stored := range map[string]string{"gears": `"v1"`, "axles": `"v2","v1"`} {
		kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
		for key, row := range map[string]string{
			"apiextensions.k8s.io/customresourcedefinitions/PLURAL.example.com": definition,
			"example.com/PLURAL/default/a":                                      `{"apiVersion":"example.com/v1","kind":"KIND","metadata":{"name":"a","namespace":"default","uid":"uid-a-PLURAL"},"size":7}`,
		} {
			all := strings.NewReplacer("PLURAL", plural, "SINGULAR", strings.TrimSuffix(plural, "s"), "KIND", kind, "STORED", stored)
			if _, err := etcd.Client().Put(t.Context(), "/registry/"+all.Replace(key), all.Replace(row)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := newTester(t, servertest.Options{Config: server.Config{EtcdServers: []string{address}}})
	for path, want := range map[string]int{
		"/apis/example.com/v1/namespaces/default/gears/a": http.StatusOK,
		"/apis/example.com/v2/namespaces/default/gears/a": http.StatusNotFound,
		"/apis/example.com/v1/namespaces/default/axles/a": http.StatusNotFound,
		"/apis/example.com/v2/namespaces/default/axles/a": http.StatusNotFound,
	} {
		if code, out := all.request(http.MethodGet, path, ""); code != want {
			t.Errorf("%s: %d %v, want %d", path, code, out, want)
		}
	}
	if code, out := all.request(http.MethodGet, "/apis/example.com/v1/namespaces/default/gears/a", ""); member(out, "size") != "7" {
		t.Errorf("%d %v", code, out)
	}
	all.eventually("a condition that says why", func() error {
		_, out := all.request(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/axles.example.com", "")
		return unless(strings.Contains(jsonOf(t, out), "conversion strategy Webhook is not supported"))
	})
	// Both take their objects with them.
	for _, plural := range []string{"axles", "gears"} {
		if code, out := all.request(http.MethodDelete, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+plural+".example.com", ""); code != http.StatusOK {
			t.Errorf("%d %v", code, out)
		}
		all.eventually("the end of "+plural, func() error {
			code, _ := all.request(http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+plural+".example.com", "")
			return unless(code == http.StatusNotFound)
		})
		if left, err := etcd.Client().Get(t.Context(), "/registry/example.com/"+plural+"/default/a"); err != nil || len(left.Kvs) > 0 {
			t.Errorf("%s: %d objects are left, %v", plural, len(left.Kvs), err)
		}
	}
}
