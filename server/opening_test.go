package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

const (
	policyPath  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	bindingPath = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	crdPath     = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

	noConfigMaps = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"none"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},
		"validations":[{"expression":"false","message":"none today"}]}}`
	noConfigMapsBinding = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"none"},
		"spec":{"policyName":"none","validationActions":["Deny"]}}`
	kites = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"kites.example.com"},"spec":{"group":"example.com",
		"names":{"plural":"kites","singular":"kite","kind":"Kite"},"scope":"Namespaced",
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
)

// TestOpening: a server that starts writes nothing before the policies that are stored judge it, and does not deny that there is
// a resource that it does not know yet. Who asks waits.
func TestOpening(t *testing.T) {
	_, address := startEtcd(t)
	options := servertest.Options{Config: server.Config{EtcdServers: []string{address}}}
	first := newTester(t, options)
	for path, body := range map[string]string{policyPath: noConfigMaps, bindingPath: noConfigMapsBinding, crdPath: kites} {
		if code, out := first.request(http.MethodPost, path, body); code != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, code, out)
		}
	}
	options.NotReady, options.Config.OpeningPatience = true, 5*time.Minute
	for round := range 3 {
		next := newTester(t, options)
		var asking sync.WaitGroup
		for i := range 4 {
			asking.Go(func() {
				body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm-%d-%d"}}`, round, i)
				if code, out := next.ask(http.MethodPost, configMapsPath, body); code != http.StatusForbidden && code != http.StatusUnprocessableEntity {
					t.Errorf("a create that a policy denies: %d %s", code, out)
				}
			})
			asking.Go(func() {
				if code, out := next.ask(http.MethodGet, "/apis/example.com/v1/namespaces/default/kites", ""); code != http.StatusOK {
					t.Errorf("a list of custom resources: %d %s", code, out)
				}
			})
			asking.Go(func() {
				if code, out := next.ask(http.MethodGet, "/apis/example.com/v1", ""); code != http.StatusOK {
					t.Errorf("discovery: %d %s", code, out)
				}
			})
		}
		asking.Wait()
	}
}

// TestOpeningUnreadable: while a policy cannot be read nothing is written but what mends it.
func TestOpeningUnreadable(t *testing.T) {
	etcd, address := startEtcd(t)
	options := servertest.Options{Config: server.Config{EtcdServers: []string{address}}}
	newTester(t, options)
	if _, err := etcd.Client().Put(t.Context(), "/registry/admissionregistration.k8s.io/validatingadmissionpolicies/odd", "{not json"); err != nil {
		t.Fatal(err)
	}
	options.NotReady, options.Config.OpeningPatience = true, time.Second
	next := newTester(t, options)
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	code, out := next.ask(http.MethodPost, configMapsPath, body)
	if code != http.StatusServiceUnavailable || !strings.Contains(out, "what judges this write is not in force yet") {
		t.Errorf("a create: %d %s", code, out)
	}
	if code, out := next.ask(http.MethodGet, "/apis/example.com/v1/kites", ""); code != http.StatusServiceUnavailable {
		t.Errorf("a resource that may be there: %d %s", code, out)
	}
	for _, path := range []string{configMapsPath, "/apis", "/openapi/v3"} {
		if code, out := next.ask(http.MethodGet, path, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", path, code, out)
		}
	}
	next.eventually("the cause in /readyz", func() error {
		if code, out := next.ask(http.MethodGet, "/readyz/configuration", ""); code != http.StatusInternalServerError || !strings.Contains(out, "validatingadmissionpolicies/odd") {
			return fmt.Errorf("%d %s", code, out)
		}
		return nil
	})
	// A write that mends something is told that it stands, instead of waiting for what cannot come.
	if code, out := next.ask(http.MethodPost, policyPath, noConfigMaps); code != http.StatusInternalServerError || !strings.Contains(out, "is stored, but not in force") {
		t.Errorf("a write of the configuration: %d %s", code, out)
	}
	const unsafe = `{"apiVersion":"v1","kind":"DeleteOptions","ignoreStoreReadErrorWithClusterBreakingPotential":true}`
	if code, out := next.ask(http.MethodDelete, policyPath+"/odd", unsafe); code != http.StatusOK {
		t.Fatalf("the row's deletion: %d %s", code, out)
	}
	next.eventually("a create", func() error {
		code, out := next.ask(http.MethodPost, configMapsPath, body)
		if code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, out)
		}
		return nil
	})
}

// TestOpeningUnreadableRole: a role that cannot be read grants nothing, and keeps no server from its start.
func TestOpeningUnreadableRole(t *testing.T) {
	etcd, address := startEtcd(t)
	options := servertest.Options{Config: server.Config{EtcdServers: []string{address}}}
	newTester(t, options)
	if _, err := etcd.Client().Put(t.Context(), "/registry/rbac.authorization.k8s.io/clusterroles/odd", "{not json"); err != nil {
		t.Fatal(err)
	}
	newTester(t, options) // is ready
}

// TestOpeningUndecoded: what is JSON and none of its kind holds writes back as well, and is deleted like any object. Meanwhile not
// even an administrator deletes a definition that can be read, which a policy may keep.
func TestOpeningUndecoded(t *testing.T) {
	etcd, address := startEtcd(t)
	options := servertest.Options{Config: server.Config{EtcdServers: []string{address}}}
	first := newTester(t, options)
	if code, out := first.request(http.MethodPost, crdPath, kites); code != http.StatusCreated {
		t.Fatalf("%d %v", code, out)
	}
	odd := map[string]string{
		policyPath:                           `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"odd.example.com","uid":"u1"},"spec":{"failurePolicy":5}}`,
		"/apis/weir.dev/v1alpha1/policies":   `{"apiVersion":"weir.dev/v1alpha1","kind":"Policy","metadata":{"name":"odd.example.com","uid":"u3"},"spec":{"failurePolicy":5}}`,
		"/apis/weir.dev/v1alpha1/strategies": `{"apiVersion":"weir.dev/v1alpha1","kind":"Strategy","metadata":{"name":"odd.example.com","uid":"u4"},"spec":5}`,
		"/apis/weir.dev/v1alpha1/modules":    `{"apiVersion":"weir.dev/v1alpha1","kind":"Module","metadata":{"name":"odd.example.com","uid":"u5"},"spec":5}`,
	}
	for path, row := range odd {
		parts := strings.Split(path, "/") // of /apis/GROUP/VERSION/RESOURCE
		if _, err := etcd.Client().Put(t.Context(), "/registry/"+parts[2]+"/"+parts[4]+"/odd.example.com", row); err != nil {
			t.Fatal(err)
		}
	}
	options.NotReady, options.Config.OpeningPatience = true, time.Second
	next := newTester(t, options)
	const body = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	for path := range odd {
		if code, out := next.ask(http.MethodPost, configMapsPath, body); code != http.StatusServiceUnavailable {
			t.Errorf("a create: %d %s", code, out)
		}
		if code, out := next.ask(http.MethodDelete, crdPath+"/kites.example.com", ""); code != http.StatusServiceUnavailable {
			t.Errorf("the deletion of a definition that can be read: %d %s", code, out)
		}
		next.eventually("the cause in /readyz", func() error {
			if code, out := next.ask(http.MethodGet, "/readyz/configuration", ""); code != http.StatusInternalServerError || !strings.Contains(out, "none of their kind") {
				return fmt.Errorf("%d %s", code, out)
			}
			return nil
		})
		if code, out := next.ask(http.MethodDelete, path+"/odd.example.com", ""); code != http.StatusOK {
			t.Fatalf("the deletion of %s: %d %s", path, code, out)
		}
	}
	next.eventually("a create", func() error {
		code, out := next.ask(http.MethodPost, configMapsPath, body)
		if code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, out)
		}
		return nil
	})
}

// ask is request for goroutines of a test: it does not end it.
func (t *tester) ask(method, path, body string) (int, string) {
	req, err := http.NewRequestWithContext(t.Context(), method, t.env.URL()+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := t.env.Client().Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}
