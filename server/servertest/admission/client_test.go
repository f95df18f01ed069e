package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/servertest"
)

// patience bounds every wait; the machine may be busy.
const patience = 60 * time.Second

// The paths of what the tests write.
const (
	validatingPolicies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	validatingBindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	mutatingPolicies   = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
	mutatingBindings   = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
	weirPolicies       = "/apis/weir.dev/v1alpha1/policies"
	weirBindings       = "/apis/weir.dev/v1alpha1/policybindings"
	weirModules        = "/apis/weir.dev/v1alpha1/modules"
	definitions        = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	namespaces         = "/api/v1/namespaces"
	configMaps         = "/api/v1/namespaces/default/configmaps"
)

// object is JSON that is written by hand.
type object = map[string]any

type list = []any

// client makes requests of a server.
type client struct{ *servertest.Environment }

// answer is what a server says.
type answer struct {
	code     int
	body     []byte
	warnings []string
	// Status of a request that was refused.
	status metav1.Status
}

// String is the code and what is said with it.
func (a *answer) String() string {
	if a.code < 300 {
		return fmt.Sprint(a.code)
	}
	return fmt.Sprintf("%d %s: %s", a.code, a.status.Reason, a.status.Message)
}

// try makes a request. The error is that there was no answer.
func (c client) try(ctx context.Context, method, path, contentType string, body any) (*answer, error) {
	var reader io.Reader
	if body != nil {
		raw, ok := body.([]byte)
		if !ok {
			var err error
			if raw, err = json.Marshal(body); err != nil {
				return nil, err
			}
		}
		reader = strings.NewReader(string(raw))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL()+path, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := c.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answer{code: resp.StatusCode}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	for _, w := range resp.Header.Values("Warning") {
		_, text, _ := strings.Cut(w, `"`)
		a.warnings = append(a.warnings, strings.TrimSuffix(text, `"`))
	}
	if a.code >= 300 {
		if err := json.Unmarshal(a.body, &a.status); err != nil {
			return nil, fmt.Errorf("%d %s: %w", a.code, a.body, err)
		}
	}
	return a, nil
}

// do makes a request in JSON and wants an answer.
func (c client) do(t testing.TB, method, path string, body any) *answer {
	t.Helper()
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	a, err := c.try(ctx, method, path, contentType, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// put creates an object, or replaces what there is of its name.
func (c client) put(t testing.TB, path string, body object) {
	t.Helper()
	a := c.do(t, http.MethodPost, path, body)
	if a.code == http.StatusConflict {
		name, _ := body["metadata"].(object)["name"].(string)
		var err error
		if a, err = c.try(t.Context(), http.MethodPatch, path+"/"+name, "application/json-patch+json",
			list{object{"op": "replace", "path": "/spec", "value": body["spec"]}}); err != nil {
			t.Fatal(err)
		}
	}
	if a.code >= 300 {
		t.Fatalf("put to %s: %s", path, a)
	}
}

// until repeats a GET until what is there is what is wanted.
func (c client) until(t testing.TB, path string, is func(object) bool) object {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		a, err := c.try(ctx, http.MethodGet, path, "", nil)
		if err != nil {
			t.Fatalf("%s does not get there: %v", path, err)
		}
		var now object
		if err := json.Unmarshal(a.body, &now); err == nil && is(now) {
			return now
		}
	}
}

// ready waits for the condition Ready of the newest generation.
func (c client) ready(t testing.TB, path, status string) {
	t.Helper()
	c.until(t, path, func(o object) bool {
		generation, _ := o["metadata"].(object)["generation"].(float64)
		st, _ := o["status"].(object)
		conditions, _ := st["conditions"].(list)
		for _, item := range conditions {
			if condition, _ := item.(object); condition["type"] == "Ready" && condition["status"] == status && condition["observedGeneration"] == generation {
				return true
			}
		}
		return false
	})
}

func start(t testing.TB, options servertest.Options) client {
	t.Helper()
	return client{servertest.Start(t, options)}
}

// of makes an object of a kind.
func of(apiVersion, kind, name string, spec object) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}, "spec": spec}
}

// on are match constraints for writes of a resource.
func on(group, resource string) object {
	return object{"resourceRules": list{object{
		"apiGroups": list{group}, "apiVersions": list{"*"}, "operations": list{"CREATE", "UPDATE"}, "resources": list{resource}}}}
}

// with adds members to a spec.
func with(spec object, more object) object {
	out := object{}
	for _, m := range []object{spec, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// vap puts a ValidatingAdmissionPolicy on ConfigMaps in force.
func (c client) vap(t testing.TB, name string, spec, binding object) {
	t.Helper()
	c.put(t, validatingPolicies, validating(name, spec))
	c.put(t, validatingBindings, of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", name,
		with(object{"policyName": name, "validationActions": list{"Deny"}}, binding)))
}

func validating(name string, spec object) object {
	return of("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name, with(object{"matchConstraints": on("", "configmaps")}, spec))
}

// mapPolicy puts a MutatingAdmissionPolicy on ConfigMaps in force.
func (c client) mapPolicy(t testing.TB, name string, spec object) {
	t.Helper()
	c.put(t, mutatingPolicies, of("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", name,
		with(object{"matchConstraints": on("", "configmaps"), "reinvocationPolicy": "Never"}, spec)))
	c.put(t, mutatingBindings, of("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", name, object{"policyName": name}))
}

// policy puts a Policy on ConfigMaps in force.
func (c client) policy(t testing.TB, name string, spec object) {
	t.Helper()
	c.put(t, weirPolicies, weirPolicy(name, spec))
	c.put(t, weirBindings, of("weir.dev/v1alpha1", "PolicyBinding", name, object{"policyName": name}))
}

func weirPolicy(name string, spec object) object {
	return of("weir.dev/v1alpha1", "Policy", name, with(object{"matchConstraints": on("", "configmaps")}, spec))
}

// remove deletes a policy and its binding.
func (c client) remove(t testing.TB, policies, bindings, name string) {
	t.Helper()
	for _, path := range []string{bindings, policies} {
		if a := c.do(t, http.MethodDelete, path+"/"+name, nil); a.code >= 300 {
			t.Errorf("delete %s of %s: %s", name, path, a)
		}
	}
}

func configMap(name, v string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": object{"v": v}}
}
