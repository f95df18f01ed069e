package cel

import (
	"fmt"
	"strings"
	"testing"

	"weir.dev/weir/policies"
)

// wideDoc has lists and maps of n elements.
func wideDoc(n int) string {
	var items, members, nested []string
	for i := range n {
		items = append(items, fmt.Sprintf(`"i%d"`, i))
		members = append(members, fmt.Sprintf(`"m%06d":"v"`, i))
		nested = append(nested, fmt.Sprintf(`{"i":%d}`, i))
	}
	return `{"items":[` + strings.Join(items, ",") + `],"members":{` + strings.Join(members, ",") + `},"nested":[` + strings.Join(nested, ",") + `]}`
}

// TestTimeIsLinear: what the cost of a comprehension does not tell must not grow faster than its list. Steps that are
// made are counted, not time.
func TestTimeIsLinear(t *testing.T) {
	const small, factor = 1000, 16
	tests := []struct{ name, expr string }{
		{"all", `object.items.all(i, i != 'x')`},
		{"all of two conditions", `object.items.all(i, i != 'x' && i != 'y')`},
		{"exists", `!object.items.exists(i, i == 'x')`},
		{"exists one", `!object.items.exists_one(i, i == 'x')`},
		{"conditional", `object.items.all(i, i.startsWith('i') ? i != 'x' : i == 'y')`},
		{"map", `object.items.map(i, i + 'x').size() > 0`},
		{"filter", `object.items.filter(i, i != 'x' || i == 'y').size() > 0`},
		{"two variables", `object.items.all(n, i, n >= 0 && i != 'x')`},
		{"map of members", `object.members.map(k, k).size() > 0`},
		{"members by key", `object.members.all(k, object.members[k] == 'v')`},
		{"members that are looked for", `object.members.all(k, k in object.members && has(object.members.m000001))`},
		{"elements by index", `lists.range(object.nested.size()).all(i, object.nested[i].i == i)`},
		{"variables", `variables.list.all(i, i != 'x')`},
		{"a comprehension in each round", `object.items.all(i, [1, 2, 3].all(j, j > 0 && i != 'x'))`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			program, err := newEngine(t, Config{AlwaysMeter: true, ExpressionLimit: 1 << 40}).Compile(&policies.Source{
				Inputs:      []string{"object"},
				Variables:   []policies.Variable{{Name: "list", Expression: policies.Expression{Path: "v", Text: "object.items.filter(i, i != 'y')"}}},
				Expressions: []policies.Expression{{Path: "e", Text: tc.expr, Want: policies.Bool}},
			})
			if err != nil {
				t.Fatal(err)
			}
			work := func(n int) uint64 {
				r, _ := program.Begin().(*run)
				r.Bind(0, mustDoc(t, wideDoc(n)).Root())
				verdict, err := r.Eval(t.Context(), 0, nil)
				if err != nil || !verdict.Bool {
					t.Fatal(verdict.Bool, err)
				}
				if r.steps < uint64(n) {
					t.Fatalf("%d steps over %d elements: they are not counted", r.steps, n)
				}
				return r.steps + r.wide.passed
			}
			few, many := work(small), work(small*factor)
			if many > few*(factor+1) {
				t.Errorf("%d times the elements take %d steps, not %d", factor, many, few*factor)
			}
		})
	}
}

// TestComparisonsAreBounded: to compare two values costs by their elements, and takes time by their bytes.
func TestComparisonsAreBounded(t *testing.T) {
	text := wideDoc(4000)
	program, err := newEngine(t, Config{}).Compile(&policies.Source{Inputs: []string{"object", "oldObject"},
		Expressions: []policies.Expression{{Path: "e", Text: `object.nested == oldObject.nested`, Want: policies.Bool}}})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := program.Begin().(*run)
	r.worked = maxRunWork
	r.Bind(0, mustDoc(t, text).Root())
	r.Bind(1, mustDoc(t, text).Root())
	const want = "==: too much work in all calls together"
	if _, err := r.Eval(t.Context(), 0, nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
