package admission

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir.dev/weir/server/servertest"
)

// rounds is how many times a policy of each engine is replaced.
var rounds = flag.Int("rounds", 40, "how often TestHammer replaces a policy of each engine")

const (
	each    = 10 // policies of each engine
	writers = 8
)

// versioned is a policy in CEL that warns twice, each time with its version.
func versioned(name string, version int) object {
	say := func(who string) object {
		return object{"expression": "variables.version == -1", "messageExpression": fmt.Sprintf("'%s=' + string(variables.version)", who)}
	}
	return validating(name, object{
		"variables":   list{object{"name": "version", "expression": fmt.Sprint(version)}},
		"validations": list{say("first"), say("second")}})
}

// versionedRego is the same in Rego.
func versionedRego(name string, version int) object {
	return weirPolicy(name, object{"rego": object{"source": fmt.Sprintf(`package admission

version := %d

warn contains concat("", ["%s: first=", format_int(version, 10)])

warn contains concat("", ["%s: second=", format_int(version, 10)])

deny contains "it was stamped by nobody" if not input.object.data.v
`, version, name, name)}})
}

var said = regexp.MustCompile(`((?:cel|rego)-\d+).*(first|second)=(\d+)`)

// versions are those that a request was told by each policy; mix tells of one that is in
// two versions.
func versions(warnings []string) (of map[string]string, mix string) {
	of = map[string]string{}
	seconds := map[string]string{}
	for _, w := range warnings {
		if m := said.FindStringSubmatch(w); m == nil {
			mix = w
		} else if m[2] == "first" {
			of[m[1]] = m[3]
		} else {
			seconds[m[1]] = m[3]
		}
	}
	if !maps.Equal(of, seconds) {
		mix = fmt.Sprintf("first %v, second %v", of, seconds)
	}
	return of, mix
}

var stamped = regexp.MustCompile(`"v":"\d{4}"`)

// TestHammer replaces one of ten policies in CEL, one of ten in Rego and the module of ten
// in Wasm over and over, and breaks one of each in between, while eight clients write. No
// write fails, none is judged by two versions of a policy, and what is broken changes
// nothing. `make hammer` does it a thousand times.
func TestHammer(t *testing.T) {
	c := start(t, servertest.Options{})
	bind := func(kind, name string, more object) object {
		group := "weir.dev/v1alpha1"
		if strings.HasPrefix(kind, "Validating") {
			group = "admissionregistration.k8s.io/v1"
		}
		return of(group, kind, name, with(object{"policyName": name}, more))
	}
	c.put(t, weirModules, module("stamp", stamp("0000")))
	c.ready(t, weirModules+"/stamp", "True")
	for i := range each {
		name := fmt.Sprint("cel-", i)
		c.put(t, validatingPolicies, versioned(name, 0))
		c.put(t, validatingBindings, bind("ValidatingAdmissionPolicyBinding", name, object{"validationActions": list{"Warn"}}))
		name = fmt.Sprint("rego-", i)
		c.put(t, weirPolicies, versionedRego(name, 0))
		c.put(t, weirBindings, bind("PolicyBinding", name, nil))
		name = fmt.Sprint("wasm-", i)
		c.put(t, weirPolicies, weirPolicy(name, object{"wasm": object{"module": "stamp"}}))
		c.ready(t, weirPolicies+"/"+name, "True")
		c.put(t, weirBindings, bind("PolicyBinding", name, nil))
	}
	// Each writer has an object of its own, which it writes again and again.
	var done atomic.Bool
	var group sync.WaitGroup
	var writes atomic.Int64
	defer group.Wait()
	defer done.Store(true)
	for w := range writers {
		name := fmt.Sprint("of-", w)
		if a := c.do(t, http.MethodPost, configMaps, configMap(name, "mine")); a.code != http.StatusCreated {
			t.Fatalf("the first write: %s", a)
		}
		group.Go(func() {
			for n := 0; !done.Load(); n++ {
				a, err := c.try(t.Context(), http.MethodPut, configMaps+"/"+name, "application/json", configMap(name, fmt.Sprint("mine ", n)))
				if err != nil || a.code != http.StatusOK {
					t.Errorf("write %d of %s: %v %v", n, name, a, err)
					return
				}
				if of, mix := versions(a.warnings); mix != "" || len(of) != 2*each {
					t.Errorf("write %d of %s: %d policies, %s", n, name, len(of), mix)
					return
				}
				if !stamped.Match(a.body) {
					t.Errorf("write %d of %s was not stamped: %s", n, name, a.body)
					return
				}
				writes.Add(1)
			}
		})
	}
	n := 1
	for ; n <= *rounds && !t.Failed(); n++ {
		c.put(t, validatingPolicies, versioned("cel-3", n))
		c.put(t, weirPolicies, versionedRego("rego-3", n))
		c.put(t, weirModules, module("stamp", stamp(fmt.Sprintf("%04d", n))))
		// Read your writes: the next request meets the version.
		a := c.do(t, http.MethodPut, configMaps+"/of-0", configMap("of-0", "mine"))
		of, _ := versions(a.warnings)
		if a.code != http.StatusOK || of["cel-3"] != fmt.Sprint(n) || of["rego-3"] != fmt.Sprint(n) {
			t.Errorf("round %d: %s, by the versions %v", n, a, of)
		}
		breakAll(t, c, n)
	}
	done.Store(true)
	group.Wait()
	t.Logf("%d writes met %d versions of a policy of each engine", writes.Load(), n-1)
}

// breakAll writes broken versions. Those of texts are refused, and the module is not put in
// force.
func breakAll(t *testing.T, c client, n int) {
	t.Helper()
	tests := []struct {
		path string
		body object
		want string
	}{
		{validatingPolicies + "/cel-5", validating("cel-5", object{"validations": list{object{"expression": "object."}}}), "Syntax error"},
		{weirPolicies + "/rego-5", weirPolicy("rego-5", object{"rego": object{"source": "package admission\n\ndeny contains msg if {\n\tfalse\n}\n"}}), "var msg is unsafe"},
	}
	for _, tc := range tests {
		if a := c.do(t, http.MethodPatch, tc.path, object{"spec": tc.body["spec"]}); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.status.Message, tc.want) {
			t.Errorf("a broken policy: %s", a)
		}
	}
	if n%10 == 0 {
		c.put(t, weirModules, module("stamp", []byte("no module")))
		c.ready(t, weirModules+"/stamp", "False")
	}
}
