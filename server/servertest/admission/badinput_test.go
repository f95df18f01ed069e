package admission

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir.dev/weir/server/servertest"
)

// others make requests that no bad policy concerns, until the test ends. All of them are
// served, and none waits for long.
func others(t *testing.T, c client) {
	t.Helper()
	const secrets = "/api/v1/namespaces/default/secrets"
	if a := c.do(t, http.MethodPost, secrets, object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "other"}}); a.code != http.StatusCreated {
		t.Fatal(a)
	}
	var done atomic.Bool
	var took []time.Duration
	var group sync.WaitGroup
	group.Go(func() {
		for n := 0; n == 0 || !done.Load(); n++ { // one at least, as it may begin late
			start := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			a, err := c.try(ctx, http.MethodPatch, secrets+"/other", "application/merge-patch+json", object{"metadata": object{"labels": object{"n": fmt.Sprint(n)}}})
			cancel()
			if err != nil || a.code != http.StatusOK {
				t.Errorf("another request: %v %v", a, err)
				return
			}
			took = append(took, time.Since(start))
		}
	})
	t.Cleanup(func() {
		done.Store(true)
		group.Wait()
		slices.Sort(took)
		if len(took) == 0 {
			return // which has been said
		}
		t.Logf("%d other requests: median %v, 99 %% within %v, the longest %v", len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		if median := took[len(took)/2]; median > time.Second {
			t.Errorf("half of the other requests took more than %v", median)
		}
	})
}

// refusal is what a request must be told.
type refusal struct {
	code   int
	reason string
	want   []string // in the message
}

func (r *refusal) check(t *testing.T, what string, a *answer) {
	t.Helper()
	if a.code != r.code || string(a.status.Reason) != r.reason {
		t.Errorf("%s: got %s, want %d %s", what, a, r.code, r.reason)
	}
	for _, want := range r.want {
		if !strings.Contains(a.status.Message, want) {
			t.Errorf("%s: got %s, want %q", what, a, want)
		}
	}
}

// invalid is a refusal with 422.
func invalid(want ...string) refusal { return refusal{http.StatusUnprocessableEntity, "Invalid", want} }

// unmutated is a refusal by a MutatingAdmissionPolicy that failed: 403, with this reason, as
// kube-apiserver answers.
func unmutated(want string) refusal {
	return refusal{http.StatusForbidden, "Invalid", []string{"policy 'bad' with binding 'bad' denied request: " + want}}
}

// doubling are variables that each hold the one before them twice.
func doubling(n int) list {
	variables := list{object{"name": "v0", "expression": "object.data.v"}}
	for i := 1; i < n; i++ {
		variables = append(variables, object{"name": fmt.Sprint("v", i), "expression": fmt.Sprintf("variables.v%d + variables.v%d", i-1, i-1)})
	}
	return variables
}

// counting are variables of which each is one more than the one before.
func counting(n int) list {
	variables := list{object{"name": "v0", "expression": "0"}}
	for i := 1; i < n; i++ {
		variables = append(variables, object{"name": fmt.Sprint("v", i), "expression": fmt.Sprintf("variables.v%d + 1", i-1)})
	}
	return variables
}

// copies is a JSON patch in CEL whose operations each double what there is.
func copies(n int) string {
	ops := make([]string, 0, n)
	for i := range n {
		ops = append(ops, fmt.Sprintf(`JSONPatch{op: "copy", from: "/data", path: "/data/c%d"}`, i))
	}
	return "[" + strings.Join(ops, ", ") + "]"
}

// TestWhatIsWrittenIsRefused: what can be seen to be bad when a policy is written.
func TestWhatIsWrittenIsRefused(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	nested := object{"type": "array", "items": object{"type": "object", "properties": object{"s": object{"type": "string"}}}}
	tests := []struct {
		name, path string
		body       object
		refusal    refusal
	}{
		{"a rule of a definition whose estimated cost is over the limit", definitions, object{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "costs.example.com"},
			"spec": object{"group": "example.com", "scope": "Namespaced", "names": object{"plural": "costs", "kind": "Cost"},
				"versions": list{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{
					"spec": object{"type": "object", "properties": object{"l": nested},
						"x-kubernetes-validations": list{object{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a.s + b.s != c.s)))"}}}}}}}}}},
			invalid("estimated rule cost exceeds budget by factor of")},
		{"a rule in Rego that recurses", weirPolicies, weirPolicy("recurses", object{"rego": object{"source": "package p\n\nf(x) := f(x - 1)\n\ndeny contains \"m\" if f(3)\n"}}),
			invalid("recursive", "data.p.f")},
		{"a text in Rego that reaches for the network", weirPolicies, weirPolicy("reaches", object{"rego": object{"source": "package p\n\ndeny contains \"m\" if http.send({\"url\": \"http://localhost\"})\n"}}),
			invalid("http.send")},
		{"a regular expression that is too large", validatingPolicies, validating("regex", object{"validations": list{object{"expression": "object.data.v.matches('(a{1000}){1000}')"}}}),
			invalid("spec.validations[0].expression", "1:23: invalid matches argument")},
		{"an expression of a megabyte", validatingPolicies, validating("long", object{"validations": list{object{"expression": "'" + strings.Repeat("a", 1<<20) + "' != ''"}}}),
			invalid("spec.validations[0].expression")},
		{"more variables than there may be", validatingPolicies, validating("variables", object{"variables": counting(5000), "validations": list{object{"expression": "true"}}}),
			invalid("5001 expressions are more than 4096")},
		{"a mutation of another type", mutatingPolicies, of("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", "type", object{
			"matchConstraints": on("", "configmaps"), "reinvocationPolicy": "Never",
			"mutations": list{object{"patchType": "JSONPatch", "jsonPatch": object{"expression": "object.data"}}}}),
			invalid("spec.mutations[0].jsonPatch.expression", "must evaluate to")},
		{"a bundle of another digest", weirPolicies, weirPolicy("digest", object{"rego": object{"bundle": "H4sIAAAAAAAAAw==", "digest": "sha256:" + strings.Repeat("0", 64)}}),
			invalid("spec.rego.bundle", "digest is sha256:")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { tc.refusal.check(t, "the write", c.do(t, http.MethodPost, tc.path, tc.body)) })
	}
}

// TestBadRuns: what comes of policies that go wrong when they judge, with both failure
// policies.
func TestBadRuns(t *testing.T) {
	c := start(t, servertest.Options{})
	others(t, c)
	tests := []struct {
		name    string
		put     func(t *testing.T, failurePolicy string)
		gone    [2]string // paths of the policy and its binding
		refusal refusal
	}{
		{"an expression that costs too much", func(t *testing.T, failurePolicy string) {
			c.vap(t, "bad", object{"failurePolicy": failurePolicy, "validations": list{object{
				"expression": "lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c != -1)))"}}}, nil)
		}, [2]string{validatingPolicies, validatingBindings}, invalid("ValidatingAdmissionPolicy 'bad' with binding 'bad' denied request: ", "cost limit exceeded: expression used 1000001 of 1000000")},
		{"variables that explode", func(t *testing.T, failurePolicy string) {
			c.vap(t, "bad", object{"failurePolicy": failurePolicy, "variables": doubling(60), "validations": list{object{"expression": "variables.v59 != ''"}}}, nil)
		}, [2]string{validatingPolicies, validatingBindings}, invalid("denied request: ", ": +: results take more than 32 MiB")},
		{"rules in Rego that explode", func(t *testing.T, failurePolicy string) {
			c.policy(t, "bad", object{"failurePolicy": failurePolicy, "rego": object{
				"source": "package p\n\ndeny contains \"m\" if {\n\tsome x in numbers.range(1, 100000)\n\tsome y in numbers.range(1, 100000)\n\tx + y == 0\n}\n"}})
		}, [2]string{weirPolicies, weirBindings}, invalid("Policy 'bad' with binding 'bad' denied request: ", " exceeded")}, // the limit of cost, or on a busy machine that of time
		{"params that are away", func(t *testing.T, failurePolicy string) {
			c.vap(t, "bad", object{"failurePolicy": failurePolicy, "paramKind": object{"apiVersion": "v1", "kind": "Secret"}, "validations": list{object{"expression": "has(params.data)"}}},
				object{"paramRef": object{"name": "vanishes", "namespace": "default", "parameterNotFoundAction": "Deny"}})
		}, [2]string{validatingPolicies, validatingBindings}, invalid("ValidatingAdmissionPolicy 'bad' with binding 'bad' denied request: ", "no params found for policy binding with `Deny` parameterNotFoundAction")},
		{"params of a kind that nobody has", func(t *testing.T, failurePolicy string) {
			c.vap(t, "bad", object{"failurePolicy": failurePolicy, "paramKind": object{"apiVersion": "example.com/v1", "kind": "Limit"}, "validations": list{object{"expression": "has(params.data)"}}},
				object{"paramRef": object{"name": "vanishes", "namespace": "default", "parameterNotFoundAction": "Deny"}})
		}, [2]string{validatingPolicies, validatingBindings}, invalid("denied request: ", "failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'")},
		{"a module that is not there", func(t *testing.T, failurePolicy string) {
			c.policy(t, "bad", object{"failurePolicy": failurePolicy, "wasm": object{"module": "nobody"}})
		}, [2]string{weirPolicies, weirBindings}, invalid("Policy 'bad'", `no Module "nobody" exists`)},
		{"a module that is not ready", func(t *testing.T, failurePolicy string) {
			c.put(t, weirModules, module("unready", []byte("no module")))
			c.ready(t, weirModules+"/unready", "False")
			c.policy(t, "bad", object{"failurePolicy": failurePolicy, "wasm": object{"module": "unready"}})
		}, [2]string{weirPolicies, weirBindings}, invalid("Policy 'bad'", "module[unready] is not ready")},
		{"a mutation of a field that is not there", func(t *testing.T, failurePolicy string) {
			c.mapPolicy(t, "bad", object{"failurePolicy": failurePolicy, "mutations": list{object{"patchType": "JSONPatch",
				"jsonPatch": object{"expression": `[JSONPatch{op: "remove", path: "/data/absent"}]`}}}})
		}, [2]string{mutatingPolicies, mutatingBindings}, unmutated("JSON Patch: operation 0: /data/absent does not exist")},
		{"a mutation of the name", func(t *testing.T, failurePolicy string) {
			c.mapPolicy(t, "bad", object{"failurePolicy": failurePolicy, "mutations": list{object{"patchType": "JSONPatch",
				"jsonPatch": object{"expression": `[JSONPatch{op: "replace", path: "/metadata/name", value: "another"}]`}}}})
		}, [2]string{mutatingPolicies, mutatingBindings}, unmutated("metadata.name may not be changed")},
		{"a mutation that explodes", func(t *testing.T, failurePolicy string) {
			c.mapPolicy(t, "bad", object{"failurePolicy": failurePolicy, "mutations": list{object{"patchType": "JSONPatch", "jsonPatch": object{"expression": copies(40)}}}})
		}, [2]string{mutatingPolicies, mutatingBindings}, unmutated("JSON Patch: operation 19: copies and tests too much")},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.put(t, "Fail")
			start := time.Now()
			a := c.do(t, http.MethodPost, configMaps+"?dryRun=All", configMap("judged", "text"))
			t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), a)
			tc.refusal.check(t, "with Fail", a)
			tc.put(t, "Ignore")
			a = c.do(t, http.MethodPost, configMaps+"?dryRun=All", configMap("judged", "text"))
			t.Logf("%v, ignored: %s", time.Since(start).Round(time.Millisecond), a)
			if a.code != http.StatusCreated {
				t.Errorf("with Ignore: %s", a)
			}
			c.remove(t, tc.gone[0], tc.gone[1], "bad")
		})
	}
}
