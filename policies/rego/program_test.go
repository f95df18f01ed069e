package rego

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

func newEngine(t testing.TB, c Config) *Engine {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustDoc(t testing.TB, s string) *document.Document {
	t.Helper()
	d, err := document.Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// compile compiles a module without its package.
func compile(t testing.TB, c Config, text string) *Program {
	t.Helper()
	p, err := newEngine(t, c).Compile(&Source{Path: "spec.rego", Modules: []Module{{Name: "policy.rego", Text: "package policy\n" + text}}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

func review(t testing.TB, object string) *policies.Review {
	t.Helper()
	return &policies.Review{Object: mustDoc(t, object).Root(), Memo: &policies.Memo{}}
}

const object1 = `{"b":true,"f":1.5,"i":3,"l":[1,2,3],"max":9223372036854775807,"n":null,"o":{"a":{"b":"c"}},"s":"täxt","e":[],"x":1.0,"z":{}}`

func TestJudge(t *testing.T) {
	tests := []struct {
		name, text string
		want       string // denials and warnings
	}{
		{"a set of strings", `deny contains "b" if input.object.i == 3
			deny contains "a" if input.object.b`, "a\nb"},
		{"violation", `violation contains {"msg": "m", "details": {"x": [input.object.i]}}`, `m {"x":[3]}`},
		{"all of an object", `deny contains {"msg": "m", "field": "spec.x", "reason": "Forbidden", "code": 403}`, `m field=spec.x reason=Forbidden code=403`},
		{"message beside msg", `deny contains {"message": "m"}`, "m"},
		{"an array", `deny := ["b", "a"]`, "b\na"},
		{"an object of messages", `deny[k] := v if some k, v in {"x": "m1", "y": "m2"}`, "m1\nm2"},
		{"warn", `warn contains "w"
			deny contains "d"`, "d\nwarning: w"},
		{"allow", `allow if input.object.b`, ""},
		{"allow is undefined", `allow if input.object.s == "x"`, "the policy does not allow it"},
		{"allow is false", `default allow := false
			message := sprintf("%d is not 4", [input.object.i]) if not allow`, "3 is not 4"},
		{"lines become one", `deny contains "a\nb\r\nc "`, "a b c"},
		{"numbers keep their spelling", `deny contains json.marshal([input.object.max, input.object.x, input.object.f])`, "[9223372036854775807,1.0,1.5]"},
		{"numbers are equal by value", `deny contains "eq" if input.object.x == 1`, "eq"},
		{"null, and what is not there", `deny contains "null" if input.object.n == null
			deny contains "old" if input.oldObject == null
			deny contains "absent" if not input.object.absent`, "absent\nnull\nold"},
		{"empty collections", `deny contains sprintf("%v%v", [input.object.e, input.object.z])`, "[]{}"},
		{"unicode", `deny contains input.object.s`, "täxt"},
		{"the clock is the request's", `deny contains sprintf("%d", [time.now_ns()])`, "1000000005"},
		{"iteration", `deny contains sprintf("%d", [n]) if {
			some n in input.object.l
			n > 1
		}`, "2\n3"},
		{"every", `deny contains "m" if not all_small
			all_small if every n in input.object.l { n < 3 }`, "m"},
		{"an error of a function is undefined", `deny contains "m" if to_number(input.object.s) > 1
			deny contains "n"`, "n"},
		{"input as a whole", `deny contains concat(",", [k | some k, _ in input])`, "namespaceObject,object,oldObject,params,request,settings"},
		{"with", `deny contains "m" if bad with input.object as {"q": 1}
			bad if input.object.q == 1`, "m"},
		{"a rule of functions", `deny contains f(input.object.i) 
			f(x) := sprintf("%d", [x * 2])`, "6"},
		{"walk", `deny contains "m" if { walk(input.object, [p, v]); v == "c"; p == ["o", "a", "b"] }`, "m"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := review(t, object1)
			r.Time, r.Spent = time.Unix(1, 5), &policies.Cost{}
			d, err := compile(t, Config{}, tc.text).Judge(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if got := render(d); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if r.Spent.Used == 0 {
				t.Error("no cost")
			}
		})
	}
}

// render writes a decision in lines.
func render(d *policies.Decision) string {
	var lines []string
	for _, f := range d.Denials {
		s := f.Message
		if f.Field != "" {
			s += " field=" + f.Field
		}
		if f.Reason != "" {
			s += " reason=" + f.Reason
		}
		if f.Code != 0 {
			s += fmt.Sprintf(" code=%d", f.Code)
		}
		if f.Details != nil {
			s += " " + string(f.Details.Bytes())
		}
		lines = append(lines, s)
	}
	for _, w := range d.Warnings {
		lines = append(lines, "warning: "+w)
	}
	return strings.Join(lines, "\n")
}

func TestEntrypoint(t *testing.T) {
	modules := []Module{
		{Name: "a.rego", Text: "package a.b\nimport data.lib\ndeny contains \"ab\" if lib.always"},
		{Name: "lib.rego", Text: "package lib\nalways := true\nresult := {\"deny\": [\"r\"], \"allow\": false, \"message\": \"no\"}\nnumber := 1\nempty := {}"},
		{Name: "d.rego", Text: "package d\ndeny contains data.messages[1].text"},
	}
	data := mustDoc(t, `{"messages":[{"text":"m0"},{"text":"m1"}]}`)
	tests := []struct{ entrypoint, want string }{
		{"", "ab"},
		{"a/b", "ab"},
		{"a.b.deny", "ab"},
		{"data.a.b", "ab"},
		{"data.lib.result", "r\nno"},
		{"lib/number", "error: spec.rego: entrypoint must be an object with any of deny, violation, warn, allow, not number"},
		{"lib/empty", "error: spec.rego: entrypoint has none of the members deny, violation, warn, allow"},
		{"d", "m1"},
		{"nowhere", "issue: spec.rego: entrypoint data.nowhere has none of the rules deny, violation, warn, allow"},
		{"a b", `issue: spec.rego: entrypoint "a b" is not the path of a package or rule`},
	}
	for _, tc := range tests {
		t.Run(tc.entrypoint, func(t *testing.T) {
			p, err := newEngine(t, Config{}).Compile(&Source{Path: "spec.rego", Modules: modules, Data: data, Entrypoint: tc.entrypoint})
			got := ""
			if err != nil {
				got = "issue: " + err.Error()
			} else if d, err := p.Judge(t.Context(), review(t, `{}`)); err != nil {
				failure := &policies.EvalError{}
				if !errors.As(err, &failure) {
					t.Fatalf("%T", err)
				}
				got = "error: " + failure.Path + ": " + err.Error()
			} else {
				got = render(d)
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"conflict", "deny contains \"m\" if x == 1\nx := 1 if input.object.b\nx := 2 if input.object.b", "line 4: "},
		{"deny is a string", `deny := "m"`, "deny must be a set, array or object, not string"},
		{"deny has numbers", `deny contains 1`, "deny must have strings, or objects with msg, not number"},
		{"no msg", `deny contains {"details": 1}`, "an object of deny must have a string msg"},
		{"an empty message", `deny contains " "`, "deny has an empty message"},
		{"code", `deny contains {"msg": "m", "code": 200}`, "code of deny must be an integer from 400 to 599, not 200"},
		{"allow is a string", `allow := "yes"`, "allow must be a boolean, not string"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d, err := compile(t, Config{}, tc.text).Judge(t.Context(), review(t, object1))
			failure := &policies.EvalError{}
			if d != nil || !errors.As(err, &failure) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want %s", d, err, tc.want)
			}
		})
	}
	t.Run("strict", func(t *testing.T) {
		p, err := newEngine(t, Config{}).Compile(&Source{Path: "p", Strict: true, Modules: []Module{{Name: "m.rego", Text: "package p\ndeny contains \"m\" if\n\tto_number(input.object.s) > 1"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Judge(t.Context(), review(t, object1))
		failure := &policies.EvalError{}
		if !errors.As(err, &failure) || failure.Path != "p/m.rego" || !strings.HasPrefix(err.Error(), "line 3: to_number: ") {
			t.Errorf("got %v", err)
		}
	})
}

// TestIssues compares what is said of sources that are wrong with testdata/*.issues.
func TestIssues(t *testing.T) {
	tests := map[string]string{
		"syntax":            "package p\n\ndeny contains \"ä\" if {\n\tinput.x = = 1\n}\n",
		"old_syntax":        "package p\ndeny[msg] { msg := \"m\" }\n",
		"two_parse_errors":  "package p\ndeny contains x if x := }\n",
		"undefined":         "package p\ndeny contains \"ä\" if { \"ü\" == nothing(input.object) }\n",
		"unsafe":            "package p\ndeny contains msg if input.object.x > y\n",
		"type":              "package p\ndeny contains msg if { msg := concat(\",\", 1) }\n",
		"http_send":         "package p\ndeny contains \"m\" if http.send({\"method\": \"get\", \"url\": input.object.url}).status_code == 200\n",
		"not_deterministic": "package p\ndeny contains uuid.rfc4122(\"x\")\nwarn contains sprintf(\"%d\", [rand.intn(\"x\", 3)])\n",
		"clock":             "package p\ndeny contains \"m\" if crypto.x509.parse_and_verify_certificates(input.object.c)[0]\n",
		"recursion":         "package p\ndeny contains a\na := b\nb := a\n",
		"mock":              "package p\ndeny contains \"m\" if x with count as 3\nx if count([1]) == 3\n",
		"number":            "package p\ndeny contains \"m\" if input.object.x > 1e999999999\n",
		"no_package":        "deny contains \"m\"\n",
		"empty":             "",
		"no_rule":           "package p\nx := 1\n",
		"exponential":       "package p\na := [input.object, input.object]\n" + doubling(25) + "deny contains \"m\" if x25 == x24\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := newEngine(t, Config{}).Compile(&Source{Path: "spec.rego", Modules: []Module{{Name: "p.rego", Text: text}}})
			var issues policies.Issues
			if !errors.As(err, &issues) {
				t.Fatalf("got %v", err)
			}
			file := filepath.Join("testdata", name+".issues")
			got := issues.Error() + "\n"
			if os.Getenv("REWRITE") != "" {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// doubling writes rules, each of which is the one before twice.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("x0 := a\n")
	for i := range n {
		fmt.Fprintf(&b, "x%d := [x%d, x%d]\n", i+1, i, i)
	}
	return b.String()
}

func TestReads(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{`deny contains "m" if input.object.spec.replicas > 3`, []string{"input.object.spec.replicas"}},
		{`deny contains c.image if some c in input.object.spec.containers`, []string{"input.object.spec.containers[*].image"}},
		{`deny contains c.image if { some c in input.object.spec.containers; c.a == 1; some p in c.ports; p.x[_].y > 1 }`, []string{"input.object.spec.containers[*].a", "input.object.spec.containers[*].image", "input.object.spec.containers[*].ports[*].x[*].y"}},
		{`deny contains c if some c in input.object.spec.containers`, []string{"input.object.spec.containers[*]"}},
		{`deny contains "m" if { some c in input.object.spec.containers; f(c) }
		f(c) if c.image == "x"`, []string{"input.object.spec.containers[*]"}},
		{`deny contains "m" if { some i, c in input.object.spec.containers; i > 1 }`, []string{"input.object.spec.containers[*]"}},
		{`deny contains "m" if not ok
		ok if every c in input.object.spec.containers { c.image == "x" }`, []string{"input.object.spec.containers[*].image"}},
		{`deny contains "m" if { count(input.object.spec.containers) > 1; some c in input.object.spec.containers; c.image == "x" }`, []string{"input.object.spec.containers[*].image"}},
		{`deny contains "m" if { c := input.object.spec; d := input.object.spec; c == d }`, []string{"input.object.spec"}},
		{`deny contains "m" if { c := input.object.a; c.x == 1; c in input.object.b }`, []string{"input.object.a", "input.object.b"}},
		{`deny contains x
		x := "m" if { c := input.object.a; c.b == 1 } else := "n" if { d := input.object.z; d.y == 2 }
		default z := 1`, []string{"input.object.a.b", "input.object.z.y"}},
		{`deny contains "m" if { c := input.object; x := {y | y := c.a.b}; count(x) > 1 }`, []string{"input.object.a.b"}},
		{`deny contains "m" if input.object.spec.containers[_].image == "x"`, []string{"input.object.spec.containers[*].image"}},
		{`deny contains "m" if input.object.metadata.labels["a.b/c"]`, []string{"input.object.metadata.labels['a.b/c']"}},
		{`deny contains "m" if input.object.metadata.labels[input.params.key]`, []string{"input.object.metadata.labels[*]", "input.params.key"}},
		{"deny contains o.x if o := input.object", []string{"input.object.x"}},
		{"deny contains \"m\" if f(input)\nf(i) if i.object.x == 1", []string{"input"}},
		{"import input.object as o\ndeny contains o.kind", []string{"input.object.kind"}},
		{`deny contains "m"`, nil},
		{`deny contains "m" if object.get(input.object, ["a", "b"], 1) == 1`, []string{"input.object"}},
		{"deny contains \"m\" if input.object.a\ndeny contains \"n\" if input.object.a.b", []string{"input.object.a"}},
		{`deny contains "m" if not input.object.a[0].b`, []string{"input.object.a[*].b"}},
		{`deny contains "m" if x with input.object as {"y": 2}
		x if input.object.y == 2`, []string{"input.object"}},
	}
	for _, tc := range tests {
		if got := compile(t, Config{}, tc.text).Reads(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

func TestMentions(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{`deny contains "m"`, nil},
		{`deny contains "m" if input.object.spec.replicas > 3`, []string{"object"}},
		{`deny contains "m" if input.namespaceObject.metadata.labels.a == input.request.name`, []string{"namespaceObject", "request"}},
		{"deny contains \"m\" if f(input)\nf(i) if i.object.x == 1", []string{"namespaceObject", "object", "request"}},
		{`deny contains "m" if { some k; input[k].x }`, []string{"namespaceObject", "object", "request"}},
	}
	for _, tc := range tests {
		p := compile(t, Config{}, tc.text)
		var got []string
		for _, input := range []string{"namespaceObject", "object", "request"} {
			if p.Mentions(input) {
				got = append(got, input)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

// TestInputIsShared: policies of one request see all they ask for, whichever comes first.
func TestInputIsShared(t *testing.T) {
	texts := []string{
		`deny contains sprintf("%v", [input.object.o])`,
		`deny contains sprintf("%v", [input.object.o.a])`,
		`deny contains sprintf("%v", [input.object.o[_].b])`,
		`deny contains sprintf("%v", [input.object])`,
		`deny contains sprintf("%v", [input.object.l[1]])`,
		`deny contains sprintf("%v", [input.object.s])`,
		`deny contains sprintf("%v", [input])`,
	}
	var programs []*Program
	var want []string
	for _, text := range texts {
		p := compile(t, Config{}, text)
		d, err := p.Judge(t.Context(), &policies.Review{Object: mustDoc(t, object1).Root()})
		if err != nil {
			t.Fatal(err)
		}
		programs, want = append(programs, p), append(want, render(d))
	}
	for first := range programs {
		r := review(t, object1)
		var wg sync.WaitGroup
		for i := range programs {
			n := (first + i*3) % len(programs)
			wg.Go(func() {
				d, err := programs[n].Judge(t.Context(), r)
				if err != nil || render(d) != want[n] {
					t.Errorf("%s: got %v, %v, want %s", texts[n], d, err, want[n])
				}
			})
		}
		wg.Wait()
	}
}

func TestCostIsTheSame(t *testing.T) {
	p := compile(t, Config{}, `deny contains sprintf("%d %d", [x, y]) if {
		some x in input.object.l
		some y in input.object.l
	}`)
	var costs []uint64
	for range 5 {
		r := review(t, object1)
		r.Spent = &policies.Cost{}
		if _, err := p.Judge(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		costs = append(costs, r.Spent.Used)
	}
	if len(slices.Compact(costs)) != 1 {
		t.Errorf("costs %v", costs)
	}
}

func TestCancelled(t *testing.T) {
	p := compile(t, Config{StepLimit: 1 << 60, Timeout: time.Hour}, `deny contains "m" if { some x in numbers.range(1, 100000); some y in numbers.range(1, 100000); x + y == 0 }`)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("client went away")
	time.AfterFunc(20*time.Millisecond, func() { cancel(reason) })
	start := time.Now()
	if _, err := p.Judge(ctx, review(t, `{}`)); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 30*time.Second { // all of it takes hours
		t.Errorf("took %s", d)
	}
	if _, err := p.Judge(ctx, review(t, `{}`)); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
}

func Example() {
	engine, err := New(Config{})
	if err != nil {
		panic(err)
	}
	program, err := engine.Compile(&Source{Path: "spec.rego.source", Modules: []Module{{Text: `package replicas

deny contains sprintf("%d replicas are more than %d", [n, input.params.max]) if {
	n := input.object.spec.replicas
	n > input.params.max
}
`}}})
	if err != nil {
		panic(err)
	}
	object, err := document.Parse([]byte(`{"spec":{"replicas":7}}`))
	if err != nil {
		panic(err)
	}
	params, err := document.Parse([]byte(`{"max":5}`))
	if err != nil {
		panic(err)
	}
	decision, err := program.Judge(context.Background(), &policies.Review{Object: object.Root(), Params: params.Root()})
	if err != nil {
		panic(err)
	}
	fmt.Println(decision.Denials[0].Message, program.Reads())
	// Output: 7 replicas are more than 5 [input.object.spec.replicas input.params.max]
}
