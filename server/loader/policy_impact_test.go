package loader_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/servertest"
)

var policyImpacts = schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "policyimpacts"}

// fill stores n ConfigMaps. Each tenth has data.v "x".
func (f *fixture) fill(t *testing.T, n int) {
	t.Helper()
	config := rest.CopyConfig(f.RESTConfig())
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := w; i < n; i += 8 {
				v := "y"
				if i%10 == 0 {
					v = "x"
				}
				if _, err := client.Resource(configMaps).Namespace("default").Create(t.Context(), configMap(fmt.Sprintf("cm-%05d", i), v), metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}

// heard collects warnings.
type heard struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _ string, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := strings.Join(h.texts, "\n")
	h.texts = nil
	return text
}

func impactOf(spec map[string]any, objects ...*unstructured.Unstructured) *unstructured.Unstructured {
	list := make([]any, len(objects))
	for i, o := range objects {
		list[i] = o.Object
	}
	if spec == nil {
		spec = map[string]any{}
	}
	spec["objects"] = list
	return object("weir.dev/v1alpha1", "PolicyImpact", "question", spec)
}

// ask asks for an impact.
func ask(t *testing.T, client dynamic.Interface, question *unstructured.Unstructured) v1alpha1.PolicyImpactStatus {
	t.Helper()
	answer, err := client.Resource(policyImpacts).Create(t.Context(), question, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out v1alpha1.PolicyImpact
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, &out); err != nil {
		t.Fatal(err)
	}
	return out.Status
}

// allCounted asks again while the time of a dry run was over before all was counted, as on a busy machine.
func allCounted(t *testing.T, dryRun func() string) (told string) {
	t.Helper()
	eventually(t, func() (bool, any) {
		told = dryRun()
		return !strings.Contains(told, "the time was over"), told
	})
	return told
}

func TestImpactOfTenThousandObjects(t *testing.T) {
	if raceEnabled {
		t.Skip("a dry run counts for two seconds, in which the race detector lets it not get through")
	}
	const n = 10_000
	f := start(t)
	f.fill(t, n)
	warnings := &heard{}
	config := rest.CopyConfig(f.RESTConfig())
	config.WarningHandler = warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	// told is what a dry run tells in whose time all is counted.
	told := func(t *testing.T, dryRun func() error) string {
		t.Helper()
		return allCounted(t, func() string {
			if err := dryRun(); err != nil {
				t.Fatal(err)
			}
			return warnings.take()
		})
	}

	t.Run("dry run of a policy without a binding", func(t *testing.T) {
		got := told(t, func() error {
			_, err := client.Resource(validatingPolicies).Create(t.Context(), demanding("x"), dry)
			return err
		})
		if !strings.Contains(got, "impact: would deny 9,000 of 10,00") || !strings.Contains(got, " configmaps: default/cm-00001: v must be x; ") ||
			!strings.Contains(got, `no binding names the ValidatingAdmissionPolicy "demanding"`) {
			t.Errorf("got %s", got)
		}
		if _, err := client.Resource(validatingPolicies).Get(t.Context(), "demanding", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a dry run stored the policy: %v", err)
		}
	})
	t.Run("dry run of an update and of a binding", func(t *testing.T) {
		f.put(t, validatingPolicies, demanding("y"))
		got := told(t, func() error {
			_, err := client.Resource(validatingBindings).Create(t.Context(), bound(), dry)
			return err
		})
		if !strings.Contains(got, "would deny 1,00") || strings.Contains(got, "no binding names") {
			t.Errorf("got %s", got)
		}
		f.put(t, validatingBindings, bound())
		update := func(opts metav1.UpdateOptions) error {
			return retry.RetryOnConflict(retry.DefaultRetry, func() error { // its status may be written meanwhile
				live, err := client.Resource(validatingPolicies).Get(t.Context(), "demanding", metav1.GetOptions{})
				if err == nil {
					live.Object["spec"] = demanding("x").Object["spec"]
					_, err = client.Resource(validatingPolicies).Update(t.Context(), live, opts)
				}
				return err
			})
		}
		got = told(t, func() error { return update(metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}) })
		if !strings.Contains(got, "would deny 9,000 of") {
			t.Errorf("got %s", got)
		}
		// A real write has no impact to tell of.
		if err := update(metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := warnings.take(); got != "" {
			t.Errorf("got %s", got)
		}
	})
	t.Run("in pieces", func(t *testing.T) {
		spec := map[string]any{"maxObjects": int64(3000), "limit": int64(3)}
		var objects, denied int64
		for range 10 {
			status := ask(t, client, impactOf(spec, bound()))
			if len(status.Findings) != 3 && status.Resources[0].Denied > 3 {
				t.Errorf("%d findings", len(status.Findings))
			}
			objects, denied = objects+status.Resources[0].Objects, denied+status.Resources[0].Denied
			if status.Complete {
				break
			}
			spec["continue"] = status.Continue
		}
		if objects < n || objects > n+10 || denied < 9000 || denied > 9010 { // there are a few that the server made
			t.Errorf("%d objects, %d denied", objects, denied)
		}
	})
	t.Run("as a stream", func(t *testing.T) {
		httpClient, err := rest.HTTPClientFor(f.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(impactOf(nil, bound()).Object)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.RESTConfig().Host+"/apis/weir.dev/v1alpha1/policyimpacts", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "application/x-ndjson")
		response, err := httpClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		lines, findings := json.NewDecoder(response.Body), int64(0)
		for {
			var line v1alpha1.PolicyImpactLine
			if err := lines.Decode(&line); err != nil {
				t.Fatal(err)
			}
			if line.Finding != nil {
				findings++
				continue
			}
			if line.Status == nil || !line.Status.Complete || line.Status.Resources[0].Denied != findings || findings < 9000 {
				t.Errorf("%d findings, then %+v", findings, line)
			}
			break
		}
	})
}

func TestImpactAsksForPermission(t *testing.T) {
	f := start(t)
	f.fill(t, 20)
	f.put(t, schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "asker"},
		"rules": []any{map[string]any{"apiGroups": []any{"weir.dev"}, "resources": []any{"policyimpacts"}, "verbs": []any{"create"}}}}})
	f.put(t, schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "asker"},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "asker"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "asker"}}}})
	as := func(name string) dynamic.Interface {
		config := rest.CopyConfig(f.RESTConfig())
		config.Impersonate.UserName = name
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	status := ask(t, as("asker"), impactOf(nil, demanding("x"), bound()))
	if len(status.Findings) > 0 || len(status.Resources) != 1 || status.Resources[0].NotCounted != "no permission to list configmaps" || status.Resources[0].Objects != 0 {
		t.Errorf("got %+v", status)
	}
	if _, err := as("nobody").Resource(policyImpacts).Create(t.Context(), impactOf(nil, demanding("x")), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	// Params that one may not read are not told of by way of a denial.
	withParams := demanding("x")
	withParams.Object["spec"].(map[string]any)["paramKind"] = map[string]any{"apiVersion": "v1", "kind": "Secret"}
	if _, err := as("asker").Resource(policyImpacts).Create(t.Context(), impactOf(nil, withParams), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `must have "get" permission`) {
		t.Errorf("got %v", err)
	}
}

func TestImpactOfWhatChanges(t *testing.T) {
	f := start(t)
	f.fill(t, 20)
	policy := object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "stamp", map[string]any{
		"reinvocationPolicy": "Never", "paramKind": map[string]any{"apiVersion": "v1", "kind": "ConfigMap"},
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"mutations": []any{map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{
			"expression": "Object{data: {'v': params.data.v}}"}}}})
	binding := object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding", "stamp", map[string]any{
		"policyName": "stamp", "paramRef": map[string]any{"name": "given", "namespace": "default", "parameterNotFoundAction": "Deny"}})
	status := ask(t, f.client, impactOf(nil, policy, binding, configMap("given", "x")))
	r := status.Resources[0]
	if r.Changed != 18+r.Objects-20 || len(status.Findings) == 0 || status.Findings[0].Verdict != "Changed" || status.Findings[0].Message != "data.v" || status.Findings[0].Refused {
		t.Errorf("got %+v", status)
	}
	// Without the param, the binding fails.
	if r := ask(t, f.client, impactOf(nil, policy, binding)).Resources[0]; r.Failed != r.Objects || r.Changed != 0 {
		t.Errorf("got %+v", r)
	}
	tests := []struct {
		name, want string
		question   *unstructured.Unstructured
	}{
		{"nothing to judge by", "no policy and no binding is among them", impactOf(nil, configMap("a", "b"))},
		{"an operation that there is not", "spec.operation: Unsupported value", impactOf(map[string]any{"operation": "CONNECT"}, policy)},
		{"a token of nobody", "spec.continue", impactOf(map[string]any{"continue": "xx"}, policy)},
		{"a policy that does not compile", "spec.objects[0].spec.mutations", impactOf(nil, object("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "bad", map[string]any{}))},
		{"too many findings", "spec.limit", impactOf(map[string]any{"limit": int64(5000)}, policy)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := f.client.Resource(policyImpacts).Create(t.Context(), tc.question, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	status = ask(t, f.client, impactOf(nil, object("weir.dev/v1alpha1", "Policy", "rego", map[string]any{
		"matchConstraints": demanding("").Object["spec"].(map[string]any)["matchConstraints"],
		"rego":             map[string]any{"source": "package p\n\ndeny contains \"no x\" if input.object.data.v == \"x\"\n"}}),
		object("weir.dev/v1alpha1", "PolicyBinding", "rego", map[string]any{"policyName": "rego", "mode": "Shadow"})))
	if r := status.Resources[0]; r.Shadowed != 2 || r.Denied != 0 || status.Findings[0].Message != "no x" {
		t.Errorf("got %+v", status)
	}
}

// An operator sees with kubectl alone what a policy would do.
func TestKubectlTellsOfImpact(t *testing.T) {
	path := servertest.Kubectl(t)
	f := start(t)
	f.fill(t, 1200)
	dir := t.TempDir()
	kubectl := func(stdin *unstructured.Unstructured, args ...string) string {
		t.Helper()
		raw, err := json.Marshal(stdin.Object)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "object.json")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), path, append([]string{"--kubeconfig", f.Kubeconfig()}, append(args, "-f", file)...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got := allCounted(t, func() string { return kubectl(demanding("x"), "apply", "--dry-run=server") }); !strings.Contains(got, "Warning: impact: would deny 1,08") ||
		!strings.Contains(got, "default/cm-00001: v must be x") || !strings.Contains(got, "validatingadmissionpolicy.admissionregistration.k8s.io/demanding created (server dry run)") {
		t.Errorf("got %s", got)
	}
	if got := kubectl(impactOf(map[string]any{"limit": int64(1)}, demanding("x"), bound()), "create", "-o", "jsonpath={.status.complete} {.status.findings[0].message} {.status.resources[0].resource}"); got != "true v must be x configmaps" {
		t.Errorf("got %s", got)
	}
	kubectl(demanding("x"), "create")
	kubectl(bound(), "create")
	// A patch is told of, too.
	got := allCounted(t, func() string {
		return kubectl(demanding("y"), "apply", "--server-side", "--force-conflicts", "--dry-run=server")
	})
	if !strings.Contains(got, "Warning: impact: would deny 12") || !strings.Contains(got, "v must be y") {
		t.Errorf("got %s", got)
	}
}
