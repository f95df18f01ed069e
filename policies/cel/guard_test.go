package cel

import (
	"runtime"
	"strings"
	"testing"

	"weir.dev/weir/policies"
)

// TestGuards: what the cost limit does not see in time is refused before it is made.
func TestGuards(t *testing.T) {
	list := func(n int, e string) string { return "[" + strings.TrimSuffix(strings.Repeat(e+",", n), ",") + "]" }
	doc := mustDoc(t, `{"l":`+list(1000, "1")+`,"w":`+list(10_000, `"x"`)+`,"v":`+list(10_000, `"y"`)+`,"s":"`+strings.Repeat("a", 2000)+`","t":"`+strings.Repeat("a", 100_000)+`"}`)
	double := strings.Repeat(".map(a, a + a)", 30)
	const unlimited = 1 << 50 // so that only guards are left
	tests := []struct{ name, expr, want string }{
		{"replace", `object.s.replace('a', object.s).replace('a', object.s) != ''`, "replace: results take more than 32 MiB"},
		{"a text is doubled", `[object.s]` + double + ` != []`, "+: results take more than 32 MiB"},
		{"a list is doubled", `[object.l]` + double + ` != []`, "+: results take more than 32 MiB"},
		{"join", `[object.l.map(x, object.s).join('')].map(a, object.l.map(x, a).join('')) != []`, "join: results take more than 32 MiB"},
		{"format", `[object.l.map(x, object.s)].all(a, '%s%s%s%s%s%s%s%s%s'.format([a, a, a, a, a, a, a, a, a]) != '')`, "format: results take more than 32 MiB"},
		{"flatten", `[object.l.map(x, object.l)].map(a, object.l.map(x, a).flatten(2)) != []`, "flatten: results take more than 32 MiB"},
		{"range", `object.w.map(x, lists.range(1000)) != []`, "lists.range: results take more than 32 MiB"},
		{"copies", `object.w.map(x, bytes(object.t)) != []`, "bytes: results take more than 32 MiB"},
		{"sorted copies", `object.w.map(x, object.l.sort()) != []`, "sort: results take more than 32 MiB"},
		{"distinct", `object.w.distinct() != []`, "distinct: arguments are too large"},
		{"sets", `sets.contains(object.w, object.v)`, "sets.contains: arguments are too large"},
		{"a regular expression of the object", `object.t.matches(object.s + '{1}')`, "matches: arguments are too large"},
		{"equal lists of large values", `object.l.map(x, object.w) == object.l.map(x, object.w)`, "==: arguments are too large"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, c := range []Config{{AlwaysMeter: true, ExpressionLimit: unlimited}, {ExpressionLimit: unlimited}} {
				program, err := newEngine(t, c).Compile(&policies.Source{
					Inputs:      []string{"object"},
					Expressions: []policies.Expression{{Path: "e", Text: tc.expr, Want: policies.Bool}},
				})
				if err != nil {
					t.Fatal(err)
				}
				run := program.Begin()
				run.Bind(0, doc.Root())
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err = run.Eval(t.Context(), 0, nil)
				runtime.ReadMemStats(&after)
				if err == nil || err.Error() != tc.want {
					t.Errorf("%+v: %v, want %s", c, err, tc.want)
				}
				if n := after.TotalAlloc - before.TotalAlloc; n > 8*maxAllocBytes {
					t.Errorf("%+v: %d MiB were allocated", c, n>>20)
				}
			}
		})
	}
}

// TestGuardedCallsDoTheSame: guards have to know how a function is called.
func TestGuardedCallsDoTheSame(t *testing.T) {
	tests := []struct{ expr, want string }{
		{`object.s + 'b'`, `"textb"`},
		{`object.i + object.f`, ""},
		{`[object.i].map(x, x + x)`, `[6]`},
		{`object.l == object.words`, `false`},
		{`object.l != object.l`, `false`},
		{`object.o == object.o`, `true`},
		{`object.i == object.s`, `false`},
		{`object.s in object.words`, `false`},
		{`object.l in [object.l]`, `true`},
		{`object.s.replace('t', 'T')`, `"TexT"`},
		{`object.s.replace('t', 'T', 1)`, `"Text"`},
		{`object.words.join()`, `"xyx"`},
		{`object.words.join('-')`, `"x-y-x"`},
		{`object.s.split('')`, `["t","e","x","t"]`},
		{`object.s.split('', 2)`, `["t","ext"]`},
		{`[[object.l], [object.l]].flatten()`, `[[1,2,3],[1,2,3]]`},
		{`[[object.l], [object.l]].flatten(2)`, `[1,2,3,1,2,3]`},
		{`object.words.sort()`, `["x","x","y"]`},
		{`object.words.sortBy(w, w)`, `["x","x","y"]`},
		{`object.words.distinct()`, `["x","y"]`},
		{`object.l.slice(1, 2)`, `[2]`},
		{`object.words.reverse()`, `["x","y","x"]`},
		{`lists.range(object.i)`, `[0,1,2]`},
		{`object.s.findAll('t')`, `["t","t"]`},
		{`object.s.findAll('t', 1)`, `["t"]`},
		{`object.s.find('e.')`, `"ex"`},
		{`object.s.matches(object.s)`, `true`},
		{`sets.intersects(object.words, ['y'])`, `true`},
		{`sets.equivalent(object.words, ['y', 'x'])`, `true`},
		{`strings.quote(object.s)`, `"\"text\""`},
		{`lists.range(5000).map(x, x).filter(x, x > 0).size()`, `4999`},
		{`timestamp('2024-01-01T00:00:00Z') + duration('1h')`, `"2024-01-01T01:00:00Z"`},
	}
	doc := mustDoc(t, object)
	for _, tc := range tests {
		t.Run(tc.expr, func(t *testing.T) {
			for _, c := range []Config{{AlwaysMeter: true}, {}} {
				program, err := newEngine(t, c).Compile(&policies.Source{
					Inputs: []string{"object"}, Expressions: []policies.Expression{{Path: "e", Text: tc.expr}},
				})
				if err != nil {
					t.Fatal(err)
				}
				run := program.Begin()
				run.Bind(0, doc.Root())
				got, err := run.Eval(t.Context(), 0, nil)
				switch {
				case tc.want == "" && err != nil && err.Error() == "no such overload":
				case err != nil:
					t.Errorf("%+v: %v", c, err)
				case string(got.Value.Bytes()) != tc.want:
					t.Errorf("%+v: %s, want %s", c, got.Value.Bytes(), tc.want)
				}
			}
		})
	}
}
