package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/servertest"
)

// send makes a request and returns its answer.
func send(t *testing.T, env *servertest.Environment, method, path, contentType, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, env.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := env.Client().Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, data
}

const (
	configMapsPath  = "/api/v1/namespaces/default/configmaps"
	deploymentsPath = "/apis/apps/v1/namespaces/default/deployments"
	strategiesPath  = "/apis/weir.dev/v1alpha1/strategies"
	modulesPath     = "/apis/weir.dev/v1alpha1/modules"
	crdsPath        = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

// TestBadInput sends what is wrong: each is refused with the code, the reason and words that help, the server goes on, and
// nothing stored is lost.
func TestBadInput(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	code, body := send(t, env, http.MethodPost, configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kept"},"data":{"k":"v"}}`)
	if code != http.StatusCreated {
		t.Fatalf("%d: %s", code, body)
	}
	_, kept := send(t, env, http.MethodGet, configMapsPath+"/kept", "", "")

	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	// Nine aliases of nine of each other: 9^9 values if all were written out.
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		n, m := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + m + ": &a" + m + " [" + strings.TrimSuffix(strings.Repeat("*a"+n+",", 9), ",") + "]\n"
	}
	strategy := func(rule string) string {
		return `{"apiVersion":"weir.dev/v1alpha1","kind":"Strategy","metadata":{"name":"endpoints"},"spec":{"group":"","resource":"endpoints","layers":[{"name":"a","cel":{"validations":[{"expression":` + rule + `,"message":"m"}]}}]}}`
	}
	tests := []struct {
		name                            string
		method, path, contentType, body string
		code                            int
		reason                          metav1.StatusReason
		says                            string // part of the message
	}{
		{"malformed JSON", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap",`, 400, metav1.StatusReasonBadRequest, ""},
		{"a trailing comma", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x",}}`, 400, metav1.StatusReasonBadRequest, ""},
		{"not an object", "POST", configMapsPath, "", `[]`, 400, metav1.StatusReasonBadRequest, ""},
		{"nothing", "POST", configMapsPath, "", ``, 400, metav1.StatusReasonBadRequest, ""},
		{"NaN", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","generation":NaN}}`, 400, metav1.StatusReasonBadRequest, ""},
		{"invalid UTF-8", "POST", configMapsPath, "", "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"},\"data\":{\"a\":\"\xff\"}}", 400, metav1.StatusReasonBadRequest, ""},
		{"a lone surrogate", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"\ud800"}}`, 400, metav1.StatusReasonBadRequest, ""},
		{"a deep nest", "POST", configMapsPath, "", deep, 400, metav1.StatusReasonBadRequest, ""},
		{"malformed YAML", "POST", configMapsPath, "application/yaml", "apiVersion: v1\nkind: [ConfigMap", 400, metav1.StatusReasonBadRequest, "yaml"},
		{"a YAML bomb", "POST", configMapsPath, "application/yaml", bomb, 400, metav1.StatusReasonBadRequest, ""},
		{"a content type that is not known", "POST", configMapsPath, "text/csv", `{}`, 415, metav1.StatusReasonUnsupportedMediaType, "application/json"},
		{"malformed protobuf", "POST", configMapsPath, "application/vnd.kubernetes.protobuf", "k8s\x00\xff\xff", 400, metav1.StatusReasonBadRequest, ""},
		{"an unknown kind", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"Nosuch","metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest, "Nosuch"},
		{"a wrong apiVersion", "POST", configMapsPath, "", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"x"}}`, 400, metav1.StatusReasonBadRequest, "v2"},
		{"no name", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap"}`, 422, metav1.StatusReasonInvalid, "name or generateName is required"},
		{"a bad name", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"A b"}}`, 422, metav1.StatusReasonInvalid, "metadata.name"},
		{"another name than the path", "PUT", configMapsPath + "/kept", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`, 400, metav1.StatusReasonBadRequest, "name"},
		{"another namespace than the path", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"kube-system"}}`, 400, metav1.StatusReasonBadRequest, "namespace"},
		{"a namespace that is not there", "POST", "/api/v1/namespaces/nowhere/configmaps", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, 404, metav1.StatusReasonNotFound, "nowhere"},
		{"a body over the limit", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"k":"` + strings.Repeat("x", 3<<20) + `"}}`, 413, metav1.StatusReasonRequestEntityTooLarge, ""},
		{"too large for etcd", "POST", crdsPath, "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"big.example.com","annotations":{}},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"big","kind":"Big"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"` + strings.Repeat("x", 2<<20) + `"}}}]}}`, 413, metav1.StatusReasonRequestEntityTooLarge, ""},
		{"an unknown field", "POST", deploymentsPath + "?fieldValidation=Strict", "", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"nosuch":1}}`, 400, metav1.StatusReasonBadRequest, `unknown field "spec.nosuch"`},
		{"a resource that is not there", "GET", "/api/v1/namespaces/default/nosuch", "", "", 404, metav1.StatusReasonNotFound, ""},
		{"a group that is not there", "GET", "/apis/nosuch.example.com/v1", "", "", 404, metav1.StatusReasonNotFound, ""},
		{"a method that is not there", "POST", configMapsPath + "/kept", "", "{}", 405, metav1.StatusReasonMethodNotAllowed, ""},
		{"a subresource that is not there", "GET", configMapsPath + "/kept/status", "", "", 404, metav1.StatusReasonNotFound, ""},
		{"a resourceVersion that is none", "GET", configMapsPath + "/kept?resourceVersion=x", "", "", 400, "", "resource version"},
		{"a watch from a resourceVersion that is none", "GET", configMapsPath + "?watch=1&resourceVersion=x", "", "", 400, "", "resource version"},
		{"a continue token that is none", "GET", configMapsPath + "?limit=1&continue=x", "", "", 400, metav1.StatusReasonBadRequest, "continue"},
		{"a label selector that is none", "GET", configMapsPath + "?labelSelector=a%3D%3D%3Db", "", "", 400, metav1.StatusReasonBadRequest, ""},
		{"a field selector that is not supported", "GET", configMapsPath + "?fieldSelector=data.k%3Dv", "", "", 400, metav1.StatusReasonBadRequest, "data.k"},
		{"a create with a resourceVersion", "POST", configMapsPath, "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","resourceVersion":"1"}}`, 400, metav1.StatusReasonBadRequest, "resourceVersion"},
		{"an unknown dryRun", "POST", configMapsPath + "?dryRun=Some", "", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, 422, metav1.StatusReasonInvalid, "dryRun"},
		{"a JSON patch that is none", "PATCH", configMapsPath + "/kept", "application/json-patch+json", `{"op":"add"}`, 400, metav1.StatusReasonBadRequest, ""},
		{"a JSON patch that cannot be applied", "PATCH", configMapsPath + "/kept", "application/json-patch+json", `[{"op":"remove","path":"/data/nosuch"}]`, 422, metav1.StatusReasonInvalid, "nosuch"},
		{"a merge patch that is none", "PATCH", configMapsPath + "/kept", "application/merge-patch+json", `[1]`, 400, metav1.StatusReasonBadRequest, ""},
		{"a patch to another uid", "PATCH", configMapsPath + "/kept", "application/merge-patch+json", `{"metadata":{"uid":"00000000-0000-0000-0000-000000000000"}}`, 422, metav1.StatusReasonInvalid, "metadata.uid"},
		{"an unknown $patch", "PATCH", configMapsPath + "/kept", "application/strategic-merge-patch+json", `{"data":{"$patch":"nosuch"}}`, 400, metav1.StatusReasonBadRequest, "$patch"},
		{"a CEL rule that does not compile", "POST", strategiesPath, "", strategy(`"object.metadata.name ="`), 422, metav1.StatusReasonInvalid, "spec.layers[0].cel.validations[0].expression"},
		{"a CEL rule of the wrong type", "POST", strategiesPath, "", strategy(`"1 + 1"`), 422, metav1.StatusReasonInvalid, "bool"},
		{"a CEL rule that names nothing", "POST", strategiesPath, "", strategy(`"nosuch.field"`), 422, metav1.StatusReasonInvalid, "undeclared reference"},
		{"a module without a source", "POST", modulesPath, "", `{"apiVersion":"weir.dev/v1alpha1","kind":"Module","metadata":{"name":"m"},"spec":{"source":{}}}`, 422, metav1.StatusReasonInvalid, "spec.source"},
		{"a definition whose schema is none", "POST", crdsPath, "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"xs.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"xs","kind":"X"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"properties":{"spec":{"type":"nosuch"}}}}}]}}`, 422, metav1.StatusReasonInvalid, "openAPIV3Schema"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			code, body := send(t, env, tc.method, tc.path, tc.contentType, tc.body)
			var status metav1.Status
			if err := json.Unmarshal(body, &status); err != nil {
				t.Fatalf("%d, and no Status: %.300s", code, body)
			}
			if code != tc.code || int(status.Code) != tc.code || status.Kind != "Status" || status.Status != metav1.StatusFailure {
				t.Errorf("%d, want %d: %.500s", code, tc.code, body)
			}
			if tc.reason != "" && status.Reason != tc.reason {
				t.Errorf("reason %q, want %q: %.500s", status.Reason, tc.reason, body)
			}
			if status.Message == "" || !strings.Contains(status.Message, tc.says) {
				t.Errorf("message %.500q, want it to say %q", status.Message, tc.says)
			}
			if len(body) > 64<<10 {
				t.Errorf("an answer of %d bytes", len(body))
			}
		})
	}

	if _, now := send(t, env, http.MethodGet, configMapsPath+"/kept", "", ""); !bytes.Equal(now, kept) {
		t.Errorf("what was stored has changed\n%s\n%s", kept, now)
	}
	_, list := send(t, env, http.MethodGet, configMapsPath, "", "")
	var items struct {
		Items []metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal(list, &items); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(items.Items))
	for i := range items.Items {
		names = append(names, items.Items[i].Name)
	}
	if !slices.Equal(names, []string{"kept"}) {
		t.Errorf("stored are %v, want kept alone", names)
	}
	if err := env.Server().Ready(); err != nil {
		t.Errorf("the server is not ready: %v", err)
	}
}
