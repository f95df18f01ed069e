package cel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
)

// rulesOfDeployments are twenty rules as platform teams write them.
var rulesOfDeployments = []string{
	"has(object.metadata.labels.team)",
	"object.metadata.labels.team != ''",
	"object.spec.template.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || !c.securityContext.privileged)",
	"object.spec.template.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
	"object.spec.template.spec.containers.all(c, !c.image.endsWith(':latest'))",
	"object.spec.template.spec.containers.all(c, has(c.resources) && has(c.resources.limits))",
	"object.spec.template.spec.containers.all(c, quantity(c.resources.limits.memory).isLessThan(quantity('1Gi')))",
	"size(object.spec.template.spec.containers) <= 20",
	"!has(object.spec.template.spec.hostPID) || object.spec.template.spec.hostPID == false",
	"!has(object.spec.template.spec.hostNetwork) || object.spec.template.spec.hostNetwork == false",
	"object.spec.template.spec.restartPolicy in ['Always', 'OnFailure']",
	"object.metadata.name.matches('^[a-z][a-z0-9-]*$')",
	"object.metadata.namespace != 'kube-system'",
	"object.spec.template.spec.containers.exists(c, c.name == 'c0')",
	"object.metadata.labels.all(k, size(k) < 64)",
	"object.spec.template.spec.containers[0].env.all(e, e.name.size() > 0)",
	"!has(object.spec.template.spec.volumes) || object.spec.template.spec.volumes.all(v, !has(v.hostPath))",
	"object.metadata.annotations.exists(k, k.startsWith('a.'))",
	"object.spec.replicas >= 1 && object.spec.replicas <= 50",
	"oldObject == null || object.spec.selector == oldObject.spec.selector",
}

// deployment is one of about so many KiB.
func deployment(kib int) []byte {
	var containers []string
	for c := range max(1, kib-1) + kib/18 {
		var all []string
		for i := range 12 + 36/kib/2 {
			all = append(all, fmt.Sprintf(`{"name":"VARIABLE_%d","value":"some value with text %d"}`, i, i))
		}
		containers = append(containers, fmt.Sprintf(`{"env":[%s],"image":"registry.example.com/web:1.2.%d","imagePullPolicy":"IfNotPresent","name":"c%d",`+
			`"ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":"1","memory":"100Mi"},"requests":{"cpu":"100m","memory":"50Mi"}},`+
			`"securityContext":{"privileged":false,"runAsNonRoot":true}}`, strings.Join(all, ","), c, c))
	}
	return []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"a.example.com/x":"1","b.example.com/y":"2"},` +
		`"labels":{"app":"web","team":"one","tier":"front"},"name":"web","namespace":"default"},"spec":{"progressDeadlineSeconds":600,"replicas":3,` +
		`"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web","tier":"front"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},` +
		`"template":{"metadata":{"labels":{"app":"web","team":"one","tier":"front"}},"spec":{"containers":[` + strings.Join(containers, ",") +
		`],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}`)
}

// judging says of an object, as it comes from a client, how many rules deny it.
type judging func(raw []byte) (denials int, err error)

// weirs is this package: from bytes.
func weirs(t testing.TB, c cel.Config) judging {
	t.Helper()
	engine, err := cel.New(c)
	if err != nil {
		t.Fatal(err)
	}
	from := &policies.Expressions{Path: "spec"}
	for _, rule := range rulesOfDeployments {
		from.Validations = append(from.Validations, policies.ValidationText{Expression: rule})
	}
	judge, err := policies.CompileExpressions(policies.Engines{Conditions: engine, Rules: engine}, from)
	if err != nil {
		t.Fatal(err)
	}
	request, err := document.Parse([]byte(`{"operation":"CREATE"}`))
	if err != nil {
		t.Fatal(err)
	}
	return func(raw []byte) (int, error) {
		object, err := document.Parse(raw)
		if err != nil {
			return 0, err
		}
		d, err := judge.Judge(context.Background(), &policies.Review{Object: object.Root(), Request: request.Root()})
		if err != nil {
			return 0, err
		}
		return len(d.Denials), nil
	}
}

// decodedMaps is cel-go on what encoding/json decodes, in upstream's environment. Metered is what
// upstream does; without it nothing bounds the evaluation.
func decodedMaps(t testing.TB, metered bool) judging {
	t.Helper()
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv()
	env, err := env.Extend(celgo.Variable("object", celgo.DynType), celgo.Variable("oldObject", celgo.DynType))
	if err != nil {
		t.Fatal(err)
	}
	options := []celgo.ProgramOption{celgo.EvalOptions(celgo.OptOptimize)}
	if metered {
		options = append(options, celgo.CostLimit(apiservercel.PerCallLimit), celgo.InterruptCheckFrequency(100))
	}
	var programs []celgo.Program
	for _, rule := range rulesOfDeployments {
		ast, issues := env.Compile(rule)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast, options...)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program)
	}
	return func(raw []byte) (denials int, err error) {
		var object map[string]any
		d := json.NewDecoder(bytes.NewReader(raw))
		if err := d.Decode(&object); err != nil {
			return 0, err
		}
		vars := map[string]any{"object": object, "oldObject": nil}
		for _, program := range programs {
			val, _, err := program.ContextEval(context.Background(), vars)
			if err != nil {
				return 0, err
			}
			if val.Value() != true {
				denials++
			}
		}
		return denials, nil
	}
}

// upstreams is the evaluator of kube-apiserver's plugin, as the plugin compiles it, on the
// type that its decoder makes.
func upstreams(t testing.TB) judging {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	var rules, messages []plugincel.ExpressionAccessor
	for _, rule := range rulesOfDeployments {
		rules = append(rules, &validating.ValidationCondition{Expression: rule})
		messages = append(messages, nil)
	}
	fail := admissionregistrationv1.Fail
	validator := validating.NewValidator(
		compiler.CompileCondition(rules, options, environment.StoredExpressions), nil,
		compiler.CompileCondition(nil, options, environment.StoredExpressions),
		compiler.CompileCondition(messages, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions), &fail, nil)
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	kind := appsv1.SchemeGroupVersion.WithKind("Deployment")
	resource := appsv1.SchemeGroupVersion.WithResource("deployments")
	return func(raw []byte) (denials int, err error) {
		object, _, err := decoder.Decode(raw, &kind, nil)
		if err != nil {
			return 0, err
		}
		attributes := admission.NewAttributesRecord(object, nil, kind, "default", "web", resource, "", admission.Create, nil, false, &user.DefaultInfo{Name: "u"})
		// As the plugin's dispatcher calls it.
		result := validator.Validate(compiler.CreateContext(context.Background()), resource,
			&admission.VersionedAttributes{Attributes: attributes, VersionedObject: admission.NewLazyObject(object), VersionedKind: kind}, nil, nil, apiservercel.RuntimeCELCostBudget, nil)
		for _, d := range result.Decisions {
			if d.Evaluation == validating.EvalError {
				return 0, fmt.Errorf("%s", d.Message)
			}
			if d.Action == validating.ActionDeny {
				denials++
			}
		}
		return denials, nil
	}
}

// judges are all, by name.
func judges(t testing.TB) []struct {
	name  string
	judge judging
} {
	t.Helper()
	return []struct {
		name  string
		judge judging
	}{
		{"weir", weirs(t, cel.Config{})},
		{"weir_metered", weirs(t, cel.Config{AlwaysMeter: true})},
		{"maps", decodedMaps(t, false)},
		{"maps_metered", decodedMaps(t, true)},
		{"upstream", upstreams(t)},
	}
}

// BenchmarkPolicy is twenty rules on a Deployment, from the bytes of the request to the
// verdict: by this package, by cel-go on decoded maps, and by kube-apiserver's evaluator.
func BenchmarkPolicy(b *testing.B) {
	for _, kib := range []int{2, 20} {
		raw := deployment(kib)
		for _, j := range judges(b) {
			b.Run(fmt.Sprintf("%dKiB/%s", kib, j.name), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				start := processorTime()
				for b.Loop() {
					if n, err := j.judge(raw); err != nil || n != 0 {
						b.Fatal(n, err)
					}
				}
				b.ReportMetric(float64(processorTime()-start)/float64(b.N)/1e3, "cpu-µs/op")
			})
		}
	}
}

// TestJudgesAgree: what is compared in BenchmarkPolicy says the same.
func TestJudgesAgree(t *testing.T) {
	if n := len(deployment(2)); n < 1800 || n > 2300 {
		t.Errorf("2 KiB are %d bytes", n)
	}
	if n := len(deployment(20)); n < 19000 || n > 21500 {
		t.Errorf("20 KiB are %d bytes", n)
	}
	tests := []struct {
		name string
		edit func(string) string
		want int
	}{
		{"as it is", func(s string) string { return s }, 0},
		{"an image of elsewhere, latest", func(s string) string { return strings.ReplaceAll(s, "registry.example.com/web:1.2.0", "web:latest") }, 2},
		{"privileged", func(s string) string { return strings.Replace(s, `"privileged":false`, `"privileged":true`, 1) }, 1},
		{"too many replicas", func(s string) string { return strings.Replace(s, `"replicas":3`, `"replicas":300`, 1) }, 1},
		{"too much memory", func(s string) string { return strings.Replace(s, `"memory":"100Mi"`, `"memory":"2Gi"`, 1) }, 1},
		{"an empty team", func(s string) string { return strings.Replace(s, `"team":"one"`, `"team":""`, 1) }, 1},
	}
	for _, j := range judges(t) {
		for _, tc := range tests {
			t.Run(j.name+"/"+tc.name, func(t *testing.T) {
				if n, err := j.judge([]byte(tc.edit(string(deployment(2))))); err != nil || n != tc.want {
					t.Errorf("%d rules deny, %v; want %d", n, err, tc.want)
				}
			})
		}
	}
}
