package rego

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/policies"
)

// big is an object with much of everything.
func big() string {
	list := func(n int, e func(int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(e(i))
		}
		return "[" + b.String() + "]"
	}
	number := func(i int) string { return fmt.Sprint(i) }
	return `{"s":"` + strings.Repeat("a", 2000) + `","t":"` + strings.Repeat("a", 100_000) + `","l":` + list(1000, number) +
		`,"w":` + list(10_000, number) + `,"v":` + list(100_000, number) + `}`
}

// TestRunaway: what does not end is ended, in time and memory, and without a verdict.
func TestRunaway(t *testing.T) {
	const unlimited = 1 << 60 // steps, so that only guards are left
	product := func(n int) string {
		var b strings.Builder
		b.WriteString("p0 := 1234567890123456789\n")
		for i := range n {
			fmt.Fprintf(&b, "p%d := p%d * p%d\n", i+1, i, i)
		}
		return b.String() + fmt.Sprintf("deny contains \"m\" if p%d > 1", n)
	}
	tests := []struct {
		name, text string
		limit      uint64
		want       string
	}{
		{"a product of lists", `deny contains [x, y, z] if { some x in input.object.w; some y in input.object.w; some z in input.object.w }`, unlimited, "spec.rego: not done after"},
		{"comprehensions", `deny contains "m" if { x := [[a, b, c] | some a in input.object.w; some b in input.object.w; some c in input.object.w]; count(x) == 0 }`, 0, "cost limit exceeded: expression used 250001 of 250000"},
		{"an object of all", `deny contains "m" if { x := {sprintf("%d-%d", [a, b]): input.object.s | some a in input.object.w; some b in input.object.w}; count(x) == 0 }`, 0, "cost limit exceeded"},
		{"every", `deny contains "m" if { every a in input.object.w { every b in input.object.w { a + b >= 0 } } }`, 0, "cost limit exceeded"},
		{"concat", `deny contains "m" if { x := concat(input.object.s, [s | some i in input.object.w; s := input.object.s]); x == "" }`, 0, "concat: results take more than 32 MiB"},
		{"a text is doubled", `t0 := input.object.t
			t1 := concat("", [t0, t0, t0, t0, t0, t0, t0, t0])
			t2 := concat("", [t1, t1, t1, t1, t1, t1, t1, t1])
			t3 := concat("", [t2, t2, t2, t2, t2, t2, t2, t2])
			deny contains "m" if t3 == ""`, 0, "concat: results take more than 32 MiB"},
		{"sprintf", `deny contains sprintf("%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d", input.object.l)`, 0, "sprintf: results take more than 32 MiB"},
		{"replace", `deny contains "m" if replace(replace(input.object.s, "a", input.object.s), "a", input.object.s) == ""`, 0, "replace: results take more than 32 MiB"},
		{"replace many", `deny contains "m" if strings.replace_n({"a": input.object.t}, input.object.t) == ""`, 0, "strings.replace_n: results take more than 32 MiB"},
		{"a range", `deny contains "m" if count(numbers.range(1, 1000000000000)) == 0`, 0, "numbers.range: results take more than 32 MiB"},
		{"a range of large numbers", `deny contains "m" if count(numbers.range(1, 100000000000000000000000)) == 0`, 0, "numbers.range: numbers are too large"},
		{"a range with steps", `deny contains "m" if count(numbers.range_step(1, 1000000000000, 2)) == 0`, 0, "numbers.range_step: results take more than 32 MiB"},
		{"ranges", `deny contains "m" if { some i in input.object.w; count(numbers.range(i, 100000)) == 0 }`, 0, "cost limit exceeded"},
		{"lists are doubled", `deny contains "m" if { l0 := input.object.v; l1 := array.concat(l0, l0); l2 := array.concat(l1, l1); l3 := array.concat(l2, l2); l4 := array.concat(l3, l3); count(l4) == 0 }`, 0, "array.concat: results take more than 32 MiB"},
		{"a regular expression", `deny contains "m" if regex.match(concat("", [input.object.s, "{1}"]), input.object.t)`, 0, "regex.match: arguments are too large"},
		{"a replacement", `deny contains "m" if regex.replace(input.object.t, "a", input.object.s) == ""`, 0, "regex.replace: results take more than 32 MiB"},
		{"a glob", `deny contains "m" if glob.match("*a*a*a*a*a*a*a*b", [], input.object.s)`, 0, "glob.match: arguments are too large"},
		{"walk", `deny contains "m" if { some i in input.object.w; walk(input.object, [p, v]); v == i }`, 0, "cost limit exceeded"},
		{"products", product(40), 0, "mul: numbers are too large"},
		{"a product of a list", `deny contains "m" if product(input.object.w) == 0`, 0, "product: arguments are too large"},
		{"a shift", `deny contains "m" if bits.lsh(1, 1000000000) == 0`, 0, "bits.lsh: shift is over 4096"},
		{"an exponent", `deny contains "m" if to_number("1e1000000000") * 2 == 0`, 0, "to_number: exponent of a number is too large"},
		{"an exponent in JSON", `deny contains "m" if json.unmarshal("[1e1000000000]")[0] * 2 == 0`, 0, "json.unmarshal: exponent of a number is too large"},
		{"addresses", `deny contains "m" if count(net.cidr_expand("10.0.0.0/8")) == 0`, 0, "net.cidr_expand: more than 65536 addresses"},
		{"JSON of JSON", `deny contains "m" if { x := [y | some i in input.object.w; y := json.marshal(input.object.l)]; count(x) == 0 }`, 0, "json.marshal: results take more than 32 MiB"},
		{"aliases", `deny contains "m" if yaml.unmarshal(concat("\n", ["a: &a [x,x,x,x,x,x,x,x,x,x]", "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]", "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]", "d: [*c,*c,*c,*c,*c,*c,*c,*c]", input.object.t])).d`, 0, "yaml.unmarshal: results take more than 32 MiB"},
		{"copies", `ops := [{"op": "copy", "from": "/a", "path": sprintf("/a/%d", [i])} | some i in numbers.range(0, 40)]
			deny contains "m" if json.patch({"a": []}, ops).a`, 0, "json.patch: more than 20 copies"},
		{"the deadline", `deny contains "m" if { some x in input.object.w; some y in input.object.w; some z in input.object.w; x + y + z < 0 }`, unlimited, "spec.rego: not done after"},
		{"the deadline in a comprehension", `deny contains "m" if { x := {n | some a in input.object.v; some b in input.object.v; n := a + b}; count(x) == 0 }`, unlimited, "spec.rego: not done after"},
		{"the deadline in unification", `deny contains "m" if { some i in input.object.v; input.object.v[_] = sprintf("%d", [i]) }`, unlimited, "spec.rego: not done after"},
	}
	doc := big()
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := compile(t, Config{StepLimit: tc.limit, Timeout: 200 * time.Millisecond}, tc.text)
			if tc.limit == 0 { // the machine may be busy
				p.config.Timeout = time.Minute
			}
			r := review(t, doc)
			inputTerm(r, p.shape)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			d, err := p.Judge(t.Context(), r)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if d != nil || err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Fatalf("got %v, %v, want %s", d, err, tc.want)
			}
			cost, failure := &policies.CostError{}, &policies.EvalError{}
			if !errors.As(err, &cost) && !errors.As(err, &failure) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%T", err)
			}
			t.Logf("%s %s, %d MiB", tc.name, took, (after.TotalAlloc-before.TotalAlloc)>>20)
			if n := after.TotalAlloc - before.TotalAlloc; n > 512<<20 {
				t.Errorf("%d MiB were allocated", n>>20)
			}
			if took > 10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestGuardedCallsDoTheSame: guards are between a call and its function.
func TestGuardedCallsDoTheSame(t *testing.T) {
	tests := []struct{ expr, want string }{
		{`concat("-", ["a", "b"])`, `"a-b"`},
		{`concat("-", {"b", "a"})`, `"a-b"`},
		{`sprintf("%s %5d %v", ["a", 7, [1]])`, `"a     7 [1]"`},
		{`replace("aba", "a", "xx")`, `"xxbxx"`},
		{`strings.replace_n({"a": "1"}, "aba")`, `"1b1"`},
		{`split("a,b", ",")`, `["a","b"]`},
		{`upper("a")`, `"A"`},
		{`contains("abc", "b")`, `true`},
		{`base64.decode(base64.encode("x"))`, `"x"`},
		{`json.unmarshal("{\"a\":[1.0,1e3]}")`, `{"a":[1.0,1e3]}`},
		{`json.marshal({"a": 1})`, `"{\"a\":1}"`},
		{`yaml.unmarshal("a: [1]")`, `{"a":[1]}`},
		{`array.concat([1], [2])`, `[1,2]`},
		{`{1} | {2}`, `[1,2]`},
		{`{1, 2} & {2}`, `[2]`},
		{`object.union({"a": 1}, {"b": 2})`, `{"a":1,"b":2}`},
		{`numbers.range(3, 1)`, `[3,2,1]`},
		{`numbers.range_step(1, 5, 2)`, `[1,3,5]`},
		{`count(net.cidr_expand("10.0.0.0/30"))`, `4`},
		{`regex.match("^a+$", "aa")`, `true`},
		{`regex.replace("aXb", "X", "-")`, `"a-b"`},
		{`regex.split(",", "a,b")`, `["a","b"]`},
		{`regex.find_n("a", "aba", -1)`, `["a","a"]`},
		{`glob.match("*.example.com", [], "a.example.com")`, `true`},
		{`glob.match("*.example.com", null, "a.b.example.com")`, `true`},
		{`3 * 4`, `12`},
		{`9223372036854775807 * 9223372036854775807`, `85070591730234615847396907784232501249`},
		{`6 / 4`, `1.5`},
		{`bits.lsh(1, 70)`, `1180591620717411303424`},
		{`to_number("1.5e3")`, `1.5e3`},
		{`units.parse_bytes("1Ki")`, `1024`},
		{`sum([1, 2]) + max([3, 4]) + product([2, 3])`, `13`},
		{`sort([2, 1])`, `[1,2]`},
		{`[p | walk({"a": [1]}, [p, 1])]`, `[["a",0]]`},
		{`crypto.sha256("")`, `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`},
		{`json.patch({"a": 1}, [{"op": "copy", "from": "/a", "path": "/b"}])`, `{"a":1,"b":1}`},
		{`object.subset({"a": [1, 2]}, {"a": [1]})`, `true`},
		{`time.parse_rfc3339_ns("1970-01-01T00:00:01Z")`, `1000000000`},
	}
	for _, tc := range tests {
		t.Run(tc.expr, func(t *testing.T) {
			p := compile(t, Config{}, `deny contains {"msg": "m", "details": `+tc.expr+`}`)
			d, err := p.Judge(t.Context(), review(t, `{}`))
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Denials) != 1 || string(d.Denials[0].Details.Bytes()) != tc.want {
				t.Errorf("got %s, want %s", render(d), tc.want)
			}
		})
	}
}

// TestDeepObject: an object of the greatest depth, and one of the greatest size, are judged
// or refused like others.
func TestDeepObject(t *testing.T) {
	deep := `{"x":` + strings.Repeat(`[`, 9990) + strings.Repeat(`]`, 9990) + `}`
	wide := `{"x":[` + strings.TrimSuffix(strings.Repeat(`{"name":"some name","value":{"a":[1,2,3]}},`, 70_000), ",") + `]}`
	for name, object := range map[string]string{"deep": deep, "wide": wide} {
		for _, text := range []string{
			`deny contains "m" if json.marshal(input.object) == ""`,
			`deny contains "m" if { walk(input.object, [p, v]); v == "nothing" }`,
			`deny contains "m" if count(input.object.x) == 0`,
			`deny contains "m" if input.object == {"x": 1}`,
			`deny contains "m" if { some e in input.object.x; e.value.a[_] == 4 }`,
		} {
			p := compile(t, Config{}, text)
			start := time.Now()
			d, err := p.Judge(t.Context(), review(t, object))
			cost := &policies.CostError{}
			failure := &policies.EvalError{}
			switch {
			case err == nil && len(d.Denials) == 0, errors.As(err, &cost), errors.As(err, &failure), errors.Is(err, context.DeadlineExceeded):
				t.Logf("%s: %s: %v (%s)", name, text, err, time.Since(start))
			default:
				t.Errorf("%s: %s: %v, %v", name, text, d, err)
			}
		}
	}
}
