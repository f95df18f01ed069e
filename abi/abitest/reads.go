package abitest

import (
	"fmt"
	"strings"

	"weir.dev/weir/abi"
)

// rich is an object with one of everything.
func rich(name string) string {
	return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"example.com/key.with.dots":"dotted"},"name":"thing"},` +
		`"spec":{"case":"` + name + `","list":[{"name":"a","n":1},{"name":"b","n":2}],"map":{"k":"v","x/y":"z"},"n":9007199254740993,"none":null,` +
		`"small":-5,"text":"quote\" back\\ \u00e9 \ud83d\ude00 €","yes":true}}`
}

// reads are the clauses of what a guest can ask for.
func reads() []Clause {
	clauses := []Clause{
		{
			Name: "path", Does: "warnings with the strings at spec.list[1].name and at metadata.annotations['example.com/key.with.dots']",
			check: warns("b", "dotted"),
		},
		{
			Name: "wildcard", Does: "a warning with each of the strings at spec.list[*].name",
			check: warns("a", "b"),
		},
		{
			Name: "absence", Does: "warnings with whether there is a value at spec.nothing, spec.none (which is null) and spec.text: true or false",
			check: warns("false", "true", "true"),
		},
		{
			Name: "integers", Does: "warnings with the integers of 64 bits at spec.n and spec.small, decimal",
			check: warns("9007199254740993", "-5"),
		},
		{
			Name: "booleans", Does: "warnings with whether spec.yes and spec.nothing are true: true or false",
			check: warns("true", "false"),
		},
		{
			Name: "escapes", Does: "a warning with the string at spec.text",
			check: warns("quote\" back\\ é 😀 €"),
		},
		{
			Name: "members", Does: "a warning name=string for each member of the object at spec.map, in order",
			check: warns("k=v", "x/y=z"),
		},
		{
			Name: "elements", Does: "a warning with the string name of each element of the array at spec.list, which is read as a whole, and one with their number",
			check: warns("a", "b", "2"),
		},
		{
			Name: "equality", Does: "warnings with whether the JSON at spec.list[0] and at spec.list[1] is the same, and that at spec.map twice: true or false",
			check: warns("false", "true"),
		},
		{
			Name: "many", Does: "a warning with the number of strings at spec.list[*].name, decimal",
			call: func(c *Call) {
				c.Object = strings.Replace(c.Object, `[{`, `[`+strings.Repeat(`{"name":"another"},`, 10_000)+`{`, 1)
			},
			check: warns("10002"),
		},
	}
	for i := range clauses {
		clauses[i].Op, clauses[i].object = abi.OpWarningsOnCreate, rich(clauses[i].Name)
	}
	return append(clauses,
		Clause{
			Name: "both", Op: abi.OpWarningsOnUpdate, Does: "warnings with spec.case of the object and of the old object",
			check: warns("both", "before"),
		},
		Clause{
			Name: "deletion", Op: abi.OpValidateDelete, Does: `an error of type Forbidden, field "metadata.name", detail "asked for"; the object is the old object`,
			check: func(o Outcome) error {
				return want(len(o.Errors) == 1 && fmt.Sprint(o.Errors[0].Type, o.Errors[0].Field, o.Errors[0].Detail) ==
					fmt.Sprint(abi.ErrorTypeForbidden, "metadata.name", "asked for"), o)
			},
		})
}
