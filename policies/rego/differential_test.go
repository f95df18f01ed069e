package rego

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

// generator writes JSON of all kinds.
type generator struct{ *rand.Rand }

var (
	genNumbers = []string{"0", "-0", "1", "-1", "10", "42", "1.0", "1.50", "-2.5e3", "1E5", "9223372036854775807", "-9223372036854775808", "18446744073709551616", "0.1", "1e-7", "123456789012345678901234567890"}
	genStrings = []string{"", "a", "spec", "ä", "日本", "🎉", `a\"b`, `\\`, `\n`, `\u0000`, `\u00e9`, "a.b/c", "0", "true", "null", "<&>"}
	genNames   = []string{"a", "b", "spec", "metadata", "containers", "ä", "a.b/c", "", "0", "image"}
)

func (g generator) json(depth int) string {
	switch n := g.IntN(9); {
	case n < 3 && depth > 0:
		names := map[string]bool{}
		var members []string
		for range g.IntN(5) {
			name := genNames[g.IntN(len(genNames))]
			if !names[name] {
				members = append(members, fmt.Sprintf("%q:%s", name, g.json(depth-1)))
			}
			names[name] = true
		}
		return "{" + strings.Join(members, ",") + "}"
	case n < 5 && depth > 0:
		var elements []string
		for range g.IntN(4) {
			elements = append(elements, g.json(depth-1))
		}
		return "[" + strings.Join(elements, ",") + "]"
	case n == 5:
		return []string{"true", "false", "null"}[g.IntN(3)]
	case n == 6:
		return `"` + genStrings[g.IntN(len(genStrings))] + `"`
	default:
		return genNumbers[g.IntN(len(genNumbers))]
	}
}

// decoded is the value that OPA makes of the JSON.
func decoded(t testing.TB, raw []byte) ast.Value {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	value, err := ast.InterfaceToValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestInputEqualsDecoded: what is built from the tape is what OPA decodes, and policies
// say the same on it, whatever part of it was built.
func TestInputEqualsDecoded(t *testing.T) {
	var programs []*Program
	for _, text := range []string{
		`deny contains json.marshal(input.object)`,
		`deny contains json.marshal([p, v]) if walk(input.object, [p, v])`,
		`deny contains json.marshal(input.object.a)`,
		`deny contains json.marshal([k, v]) if some k, v in input.object`,
		`deny contains json.marshal([k, input.object[k].a]) if input.object[k].a`,
		`deny contains json.marshal(input.object.spec.containers[_].image)`,
		`deny contains json.marshal([i, j]) if input.object[i] == input.object[j]`,
		`deny contains json.marshal(input.object[_][_])`,
		`deny contains json.marshal([input.object.a[0], input.object.a[1].b])`,
		`deny contains sprintf("is %v", [input.object["a.b/c"]])`,
		`deny contains json.marshal(input.object.a + 1)`,
		`deny contains type_name(input.object[k]) if input.object[k] != null`,
		`deny contains "m" if not input.object.a.b
		 deny contains json.marshal(input.object.a.spec)`,
		`deny contains json.marshal([count(input.object.a), count(input.object.containers)])`,
		`deny contains json.marshal(c.image) if { some c in input.object.containers; c.a != 1 }`,
		`deny contains sprintf("%d", [count(input.object)])
		 deny contains sprintf("%d is", [count(input.object.a)])
		 deny contains sprintf("%d of", [count(c)]) if some c in input.object.containers`,
		`deny contains json.marshal(i) if { some i, _ in input.object.containers }`,
		`deny contains json.marshal(c) if { some c in input.object.a; c == input.object.b }`,
		`deny contains "m" if every c in input.object.containers { c.a == 1 }
		 deny contains "n" if { some c in input.object.spec; every d in c.b { d.image } }`,
		`deny contains json.marshal(y) if { x := input.object; y := x.a; x.b.spec != y }`,
		`deny contains "m" if { x := input.object.a; not x.b }
		 deny contains "n" if { x := input.object.a; y := x.spec; y }
		 deny contains "o" if { x := input.object.a }`,
		`deny contains json.marshal(x) if { some x in input.object.containers; x.image }`,
	} {
		programs = append(programs, compile(t, Config{}, text))
	}
	g := generator{rand.New(rand.NewPCG(1, 2))} //nolint:gosec // of tests
	for range 400 {
		text := g.json(5)
		doc, err := document.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := decoded(t, doc.Bytes())
		if got := term(doc.Root()).Value; got.Compare(want) != 0 || got.Hash() != want.Hash() || got.String() != want.String() {
			t.Fatalf("%s: got %v, want %v", text, got, want)
		}
		memo := &policies.Memo{}
		for i, p := range programs {
			got, err := p.Judge(t.Context(), &policies.Review{Object: doc.Root(), Memo: memo})
			if err != nil {
				t.Fatalf("%d on %s: %v", i, text, err)
			}
			whole := *p // which sees all there is, as OPA decodes it
			input := ast.ObjectTerm([2]*ast.Term{ast.StringTerm("object"), ast.NewTerm(want)})
			wanted := judgeOn(t, &whole, input)
			if render(got) != render(wanted) {
				t.Errorf("%d on %s: got\n%s\nwant\n%s", i, text, render(got), render(wanted))
			}
		}
	}
}

// judgeOn judges a given input.
func judgeOn(t testing.TB, p *Program, input *ast.Term) *policies.Decision {
	t.Helper()
	d, err := p.judge(t.Context(), input, &policies.Review{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}
