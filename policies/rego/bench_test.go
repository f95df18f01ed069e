package rego

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/rego"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// pod is an object with so many containers, each of about 1 KiB.
func pod(t testing.TB, containers int) *document.Document {
	t.Helper()
	var all []string
	for c := range containers {
		var env []string
		for i := range 13 {
			env = append(env, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"some value with text %d"}`, i, i))
		}
		all = append(all, fmt.Sprintf(`{"name":"c%d","image":"registry.example.com/web:1.2.%d","securityContext":{"privileged":false,"runAsNonRoot":true},`+
			`"resources":{"limits":{"cpu":"1","memory":"100Mi"}},"ports":[{"containerPort":8080}],"env":[%s]}`, c, c, strings.Join(env, ",")))
	}
	return mustDoc(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default","labels":{"app":"web","team":"one","tier":"front"},`+
		`"annotations":{"a.example.com/x":"1","b.example.com/y":"2"}},"spec":{"restartPolicy":"Always","hostNetwork":false,"containers":[`+strings.Join(all, ",")+`]}}`)
}

const twentyRules = `package bench

deny contains "team" if not input.object.metadata.labels.team
deny contains "empty team" if input.object.metadata.labels.team == ""
deny contains sprintf("%s is privileged", [c.name]) if {
	some c in input.object.spec.containers
	c.securityContext.privileged
}
deny contains sprintf("%s: registry", [c.name]) if {
	some c in input.object.spec.containers
	not startswith(c.image, "registry.example.com/")
}
deny contains sprintf("%s: latest", [c.name]) if {
	some c in input.object.spec.containers
	endswith(c.image, ":latest")
}
deny contains sprintf("%s: limits", [c.name]) if {
	some c in input.object.spec.containers
	not c.resources.limits
}
deny contains sprintf("%s: memory", [c.name]) if {
	some c in input.object.spec.containers
	units.parse_bytes(c.resources.limits.memory) > 1073741824
}
deny contains "containers" if count(input.object.spec.containers) > 50
deny contains "hostPID" if input.object.spec.hostPID
deny contains "hostNetwork" if input.object.spec.hostNetwork
deny contains "restartPolicy" if not input.object.spec.restartPolicy in {"Always", "OnFailure"}
deny contains "name" if not regex.match("^[a-z][a-z0-9-]*$", input.object.metadata.name)
deny contains "namespace" if input.object.metadata.namespace == "kube-system"
deny contains "no first" if not has_first
has_first if {
	some c in input.object.spec.containers
	c.name == "c0"
}
deny contains "label" if {
	some key, _ in input.object.metadata.labels
	count(key) > 63
}
deny contains "port" if {
	some c in input.object.spec.containers
	some p in c.ports
	p.containerPort < 1024
}
deny contains "volume" if {
	some v in input.object.spec.volumes
	v.hostPath
}
deny contains "annotation" if not annotated
annotated if {
	some key, _ in input.object.metadata.annotations
	startswith(key, "a.")
}
deny contains "kind" if input.object.kind != "Pod"
deny contains "changed" if {
	input.oldObject != null
	input.oldObject.spec.restartPolicy != input.object.spec.restartPolicy
}
`

func BenchmarkTwentyRules(b *testing.B) {
	p, err := newEngine(b, Config{}).Compile(&Source{Path: "p", Modules: []Module{{Text: twentyRules}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	prepared, err := rego.New(rego.Query("data.bench.deny"), rego.Module("p", twentyRules)).PrepareForEval(ctx)
	if err != nil {
		b.Fatal(err)
	}
	for name, containers := range map[string]int{"2KiB": 2, "20KiB": 23} {
		raw := pod(b, containers).Bytes()
		judge := func(b *testing.B, r *policies.Review) uint64 {
			var spent policies.Cost
			r.Spent = &spent
			d, err := p.Judge(ctx, r)
			if err != nil || len(d.Denials) > 0 {
				b.Fatal(d, err)
			}
			return spent.Used
		}
		b.Run(name+"/bytes to verdict", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			steps := uint64(0)
			for b.Loop() {
				steps = judge(b, &policies.Review{Object: document.FromCanonical(raw).Root()})
			}
			b.ReportMetric(float64(steps), "steps")
		})
		b.Run(name+"/shared input", func(b *testing.B) {
			b.ReportAllocs()
			r := &policies.Review{Object: document.FromCanonical(raw).Root(), Memo: &policies.Memo{}}
			for b.Loop() {
				judge(b, r)
			}
		})
		b.Run(name+"/input", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				inputTerm(&policies.Review{Object: document.FromCanonical(raw).Root()}, p.shape)
			}
		})
		b.Run(name+"/opa on a map", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d := json.NewDecoder(bytes.NewReader(raw))
				d.UseNumber()
				var object map[string]any
				if err := d.Decode(&object); err != nil {
					b.Fatal(err)
				}
				rs, err := prepared.Eval(ctx, rego.EvalInput(map[string]any{"object": object, "oldObject": nil}))
				if err != nil || len(rs) != 1 {
					b.Fatal(rs, err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	e := newEngine(b, Config{})
	for b.Loop() {
		if _, err := e.Compile(&Source{Path: "p", Modules: []Module{{Text: twentyRules}}}); err != nil {
			b.Fatal(err)
		}
	}
}
