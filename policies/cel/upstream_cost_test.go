package cel_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
)

// corpus are expressions over an object of corpusObject, in all corners of the language.
var corpus = map[string][]string{
	"values": {
		"object.n == 3", "object.n + 1 > 3", "object.big == 9223372036854775807", "object.f > 1.5 && object.f < 3.0", "object.b", "!object.b || object.n > 1",
		"object.none == null", "type(object.n) == int", "int(object.s2) == 12", "string(object.n) == '3'", "double(object.n) == 3.0", "object.n in [1, 2, 3]",
		"object.absent == 1", "object.n / 0 == 1", "object.l[99] == 1", "object.n == object.f", "duration('1h') < duration('2h')", "timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
		"object.b ? object.n == 3 : object.n == 4", "oldObject == null", "dyn(object.n) == 3",
	},
	"maps": {
		"has(object.m.a)", "!has(object.m.z)", "'a' in object.m", "object.m['a'] == 'x'", "size(object.m) == 3", "object.m == {'a': 'x', 'b': 'y', 'c': 'z'}", "object.m.all(k, k != 'z')",
		"!object.m.exists(k, object.m[k] == 'none')", "object.m.map(k, k).size() == 3", "object.?m.?z.orValue('d') == 'd'", "object.m.all(k, v, k != v)", "object.m.transformList(k, v, k + v).size() == 3",
		"object.deep.er.est.value == 1", "has(object.deep.er.est.none)", "object[?'deep'].hasValue()", "object.m.transformMap(k, v, v + k)['a'] == 'xa'",
	},
	"lists": {
		"object.l.all(x, x > 0)", "object.l.exists(x, x == 3)", "object.l.exists_one(x, x == 3)", "object.l.filter(x, x > 2).size() == 3", "object.l.map(x, x * 2) == [2, 4, 6, 8, 10]",
		"object.l == [1, 2, 3, 4, 5]", "5 in object.l", "!(9 in object.l)", "object.l + [6] == [1, 2, 3, 4, 5, 6]", "object.l.sum() == 15", "object.l.min() == 1 && object.l.max() == 5", "object.l.isSorted()",
		"object.l.indexOf(3) == 2", "object.words.lastIndexOf('x') == 2", "object.l.all(i, x, x == i + 1)", "sets.contains(object.l, [1, 2])", "sets.intersects(object.l, [9, 5])", "sets.equivalent(object.words, ['x', 'y'])",
		"object.words.join(',') == 'x,y,x'", "object.words.distinct() == ['x', 'y']", "object.l.reverse()[0] == 5", "object.l.slice(1, 3) == [2, 3]", "[[1], [2, 3]].flatten() == [1, 2, 3]", "object.words.sort() == ['x', 'x', 'y']",
		"object.l.all(x, object.l.exists(y, x == y))", "object.nested.all(n, n.items.all(i, i.startsWith('i')))", "object.l[?9].orValue(0) == 0", "lists.range(3) == [0, 1, 2]", "object.l.first().orValue(0) == 1",
	},
	"strings": {
		"object.s.startsWith('some')", "object.s.endsWith('text')", "object.s.contains('of')", "object.s.matches('^[a-z ]+$')", "object.s.size() == 17", "object.s.upperAscii() == 'SOME KIND OF TEXT'",
		"object.s.split(' ').size() == 4", "object.s.replace('kind', 'sort') == 'some sort of text'", "object.s.substring(5, 9) == 'kind'", "object.s.indexOf('kind') == 5", "object.s.trim() == object.s",
		"object.s.find('k[a-z]+') == 'kind'", "object.s.findAll('[a-z]+').size() == 4", "'%s has %d'.format([object.s, object.n]).size() > 5", "object.s + object.s != ''", "object.s == object.s", "object.s < 'z'",
		"object.s.charAt(0) == 's'", "object.s.lastIndexOf('e') == 14", "object.s.reverse() != object.s", "strings.quote(object.s) != ''",
	},
	"libraries": {
		"quantity(object.q).isGreaterThan(quantity('1Mi'))", "quantity(object.q).add(quantity('1Mi')).compareTo(quantity('101Mi')) == 0", "isQuantity(object.q)", "isQuantity('x')", "quantity(object.q).asInteger() > 0",
		"url('https://example.com:80/path?a=b').getHostname() == 'example.com'", "isURL(object.s)", "url('https://example.com/p?a=b').getQuery()['a'] == ['b']",
		"ip('10.0.0.1').family() == 4", "isIP(object.s)", "cidr('10.0.0.0/8').containsIP('10.1.2.3')", "cidr('10.0.0.0/8').prefixLength() == 8", "ip('127.0.0.1').isLoopback()",
		"semver('1.2.3').isLessThan(semver('2.0.0'))", "isSemver(object.s)", "semver('v1.2', true).major() == 1",
		"!format.dns1123Label().value().validate(object.name).hasValue()", "format.named('dns1123Label').hasValue()", "!format.uuid().validate('x').hasValue()",
	},
	"plans": {
		"(object.b ? object.m : object.deep).a == 'x'", "has((object.b ? object.m : object.deep).a)", "(object.b ? object.l : object.words)[1] == 2", "(object.n > 5 ? 1 : object.n > 2 ? 2 : 3) == 2",
		"((object.b ? (object.n > 1 ? object.m : object.deep) : object.deep).a) == 'x'", "object.l[object.l[0]] == 2", "object.m[object.words.size() > 0 ? 'a' : 'b'] == 'x'", "object.nested[object.n - 3].items[0] == 'i1'",
		"object.l.all(x, x > 0 || x < 100 && x != 5)", "object.l.exists(x, x > 2 ? x > 3 : x > 1)", "object.l.all(x, has(object.m.a) && object.?m.?a.orValue('z') == 'x')", "object.l.exists(x, x / 0 == 1 || x == 3)",
		"object.l.all(x, x in [1, 2, 3, 4, 5])", "object.l.all(x, object.l.map(y, y + x).exists(z, z == x + 1))", "object.nested.all(n, has(n.items) && n.items.size() > 0 && n.items.exists(i, i in object.words || i != ''))",
		"object.l.all(x, object.none == null ? has(object.m.z) : true)", "[object.m, object.deep].exists(m, has(m.a) && m.a == 'x')", "[object.n, object.l[1]].sum() == 5", "{'a': object.n, 'b': 2}.b == 2", "{'a': object.l}.a.all(x, x > 0)",
		"[[1, 2], [object.n]].flatten().size() == 3", "[[[object.n]]].flatten(2) == [object.n]", "object.l.sort() == object.l", "[2.5, 1.5].sort()[0] == 1.5", "[object.b, false].sort()[0] == false", "object.words.sortBy(w, w)[0] == 'x'",
		"object.nested.sortBy(n, n.items.size())[0].items.size() == 1", "[duration('2h'), duration('1h')].sort()[0] == duration('1h')", "[b'b', b'a'].sort()[0] == b'a'", "[].distinct() == []", "[1u, 2u].sort()[0] == 1u", "lists.range(object.n) == [0, 1, 2]",
		"[timestamp('2026-01-01T00:00:00Z')].sort().size() == 1", "object.l.sortBy(x, -x)[0] == 5", "sets.equivalent([object.n], object.l)", "optional.of(object.n).optMap(v, v + 1).orValue(0) == 4", "optional.none().or(optional.of(object.n)).value() == 3",
		"object.?m.optFlatMap(m, m.?a).orValue('') == 'x'", "object.m.transformMapEntry(k, v, {v: k}).x == 'a'", "object.l.transformList(i, v, i > 1, v).size() == 3", "object.m.existsOne(k, v, v == 'x')", "object.s.contains('of') ? object.s.matches('t$') : false",
		"object.l == object.l.map(x, x) && object.m == object.m.transformMap(k, v, v)", "object.l.all(x, !(x > 5) && (x > 0 || object.none == null))", "[object.?m.?z, object.?m.?a].exists(o, o.hasValue())", "type(object.m) == map && type(object.l) == list",
	},
	"request": {
		"request.operation == 'CREATE'", "request.userInfo.username == 'u'", "request.resource.group == 'example.com'", "request.dryRun == false", "has(request.userInfo.groups)", "request.name.size() == 1",
	},
}

const corpusObject = `{"apiVersion":"example.com/v1","b":true,"big":9223372036854775807,"deep":{"er":{"est":{"value":1}}},"f":2.25,"kind":"Thing","l":[1,2,3,4,5],` +
	`"m":{"a":"x","b":"y","c":"z"},"metadata":{"name":"x"},"n":3,"name":"web","nested":[{"items":["i1","i2"]},{"items":["i3"]}],"none":null,"q":"100Mi","s":"some kind of text","s2":"12","words":["x","y","x"]}`

const corpusRequest = `{"dryRun":false,"kind":{"group":"example.com","kind":"Thing","version":"v1"},"name":"x","namespace":"default","operation":"CREATE","options":null,` +
	`"resource":{"group":"example.com","resource":"things","version":"v1"},"uid":"","userInfo":{"groups":["g"],"username":"u"}}`

// upstreamOptions are those of a validation.
var upstreamOptions = plugincel.OptionalVariableDeclarations{HasAuthorizer: true, HasParams: true}

// upstreamCompiler is that of a policy with such variables.
func upstreamCompiler(t *testing.T, variables []policies.NamedText) *plugincel.CompositedCompiler {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, upstreamOptions, environment.NewExpressions)
	}
	return compiler
}

// upstreamCost is what kube-apiserver's evaluator takes from the budget of a request for
// one expression, and whether it can be evaluated at all.
func upstreamCost(t *testing.T, compiler *plugincel.CompositedCompiler, expression string, object map[string]any) (cost uint64, compiles bool, result string) {
	t.Helper()
	condition := compiler.CompileCondition([]plugincel.ExpressionAccessor{&validating.ValidationCondition{Expression: expression}}, upstreamOptions, environment.NewExpressions)
	if len(condition.CompilationErrors()) > 0 {
		return 0, false, condition.CompilationErrors()[0].Error()
	}
	u := &unstructured.Unstructured{Object: object}
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	resource := kind.GroupVersion().WithResource("things")
	attributes := admission.NewAttributesRecord(u, nil, kind, "default", "x", resource, "", admission.Create, nil, false, &user.DefaultInfo{Name: "u", Groups: []string{"g"}})
	request := plugincel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
	results, left, err := condition.ForInput(compiler.CreateContext(context.Background()), &admission.VersionedAttributes{Attributes: attributes, VersionedObject: admission.NewLazyObject(u), VersionedKind: kind},
		request, plugincel.OptionalVariableBindings{}, nil, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Error != nil {
		return uint64(math.MaxInt64 - left), true, "error"
	}
	return uint64(math.MaxInt64 - left), true, fmt.Sprint(results[0].EvalResult.Value())
}

// TestCostIsUpstreams: metered, an expression costs what it costs in kube-apiserver, and
// comes to the same.
func TestCostIsUpstreams(t *testing.T) {
	engine, err := cel.New(cel.Config{AlwaysMeter: true})
	if err != nil {
		t.Fatal(err)
	}
	bounding, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	object, request := parsed(t, corpusObject), parsed(t, corpusRequest)
	native, ok := object.Root().Interface().(map[string]any)
	if !ok {
		t.Fatal("no object")
	}
	upstream, ran := upstreamCompiler(t, nil), 0
	all := combined(maps.Clone(corpus))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, expression := range all[name] {
			t.Run(name+"/"+expression, func(t *testing.T) {
				want, compiles, result := upstreamCost(t, upstream, expression, native)
				program, err := engine.Compile(&policies.Source{Inputs: policies.Inputs(), Authorizer: true,
					Expressions: []policies.Expression{{Path: "e", Text: expression, Want: policies.Bool}}})
				if (err == nil) != compiles {
					t.Fatalf("compiles: %v, upstream: %s", err, result)
				}
				if err != nil {
					return
				}
				ran++
				run := program.Begin()
				policies.BindReview(run, &policies.Review{Object: object.Root(), Request: request.Root()})
				verdict, err := run.Eval(t.Context(), 0, nil)
				got := map[bool]string{true: "true", false: "false"}[verdict.Bool]
				if err != nil {
					got = "error"
				}
				if got != result {
					t.Errorf("%s (%v), upstream %s", got, err, result)
				}
				if used := run.Cost().Used; used != want {
					t.Errorf("cost %d, upstream %d", used, want)
				}
				// Where it need not be metered, what was proven is no less.
				unmetered, err := bounding.Compile(&policies.Source{Inputs: policies.Inputs(), Authorizer: true,
					Expressions: []policies.Expression{{Path: "e", Text: expression, Want: policies.Bool}}})
				if err != nil {
					t.Fatal(err)
				}
				run = unmetered.Begin()
				policies.BindReview(run, &policies.Review{Object: object.Root(), Request: request.Root()})
				if again, err := run.Eval(t.Context(), 0, nil); (err == nil) != (got != "error") || again.Bool != verdict.Bool {
					t.Errorf("unmetered: %v, %v", again.Bool, err)
				}
				if c := run.Cost(); c.Used == 0 && c.Proven < want {
					t.Errorf("bound %d is below the cost %d", c.Proven, want)
				}
			})
		}
	}
	if ran < 400 {
		t.Errorf("%d expressions", ran)
	}
}

// combined adds expressions that are made of those of a corpus: conjunctions, conditionals and rounds of comprehensions
// leave the stack of a meter in all of its states.
func combined(corpus map[string][]string) map[string][]string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(corpus)) {
		parts = append(parts, corpus[name]...)
	}
	forms := []string{
		"(%s) && (%s)", "(%s) || (%s)", "(%s) ? (%s) : object.b", "object.l.all(x, (%s) || (%s))", "object.words.exists(w, w == 'y' && (%s) && !(%s))",
		"object.l.map(x, (%s) ? x : x + 1).exists(y, y > 3 && (%s))", "[(%s), (%s)].all(x, x)", "object.m.all(k, v, v != k && ((%s) || (%s)))", "object.nested.all(n, n.items.all(i, (%s) ? i != '' : (%s)))",
	}
	const made = 300
	r := rand.New(rand.NewPCG(1, 2))
	for i := range made {
		corpus["combined"] = append(corpus["combined"], fmt.Sprintf(forms[i%len(forms)], parts[r.IntN(len(parts))], parts[r.IntN(len(parts))]))
	}
	return corpus
}

// TestCostOfTheLibraryIsUpstreams does the same with the variables and validations of the
// library's policies, on the objects of their cases.
func TestCostOfTheLibraryIsUpstreams(t *testing.T) {
	engine, err := cel.New(cel.Config{AlwaysMeter: true})
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := library.Policies()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, dir := range dirs {
		p, err := policytest.LoadPolicy(library.FS, dir)
		if err != nil {
			t.Fatal(err)
		}
		if p.Params != nil {
			continue // upstream's params are types of the server
		}
		upstream := upstreamCompiler(t, p.Expressions.Variables)
		for _, suite := range p.Suites {
			for _, c := range suite.Cases[:min(2, len(suite.Cases))] {
				native, ok := c.Review.Object.Interface().(map[string]any)
				if !ok {
					continue
				}
				for i, v := range p.Expressions.Validations {
					want, compiles, _ := upstreamCost(t, upstream, v.Expression, native)
					program, err := engine.Compile(&policies.Source{Inputs: policies.Inputs(), Authorizer: true,
						Variables:   policies.VariablesOf("v", p.Expressions.Variables),
						Expressions: []policies.Expression{{Path: "e", Text: v.Expression, Want: policies.Bool}}})
					if err != nil || !compiles {
						t.Fatalf("%s %d: %v, upstream %v", dir, i, err, compiles)
					}
					run := program.Begin()
					policies.BindReview(run, c.Review)
					if _, err := run.Eval(t.Context(), 0, nil); err != nil {
						t.Fatalf("%s %d: %v", dir, i, err)
					}
					ran++
					if used := run.Cost().Used; used != want {
						t.Errorf("%s, validation %d, %s: cost %d, upstream %d", dir, i, c.Name, used, want)
					}
				}
			}
		}
	}
	if ran < 20 {
		t.Errorf("%d validations", ran)
	}
}

func parsed(t *testing.T, text string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
