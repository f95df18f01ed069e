package abitest

import (
	"strings"

	"weir.dev/weir/abi"
)

// changes are the clauses of what a guest can change. It may answer with a
// patch or with the whole object.
func changes() []Clause {
	// with is the object after a replacement in its text.
	with := func(name, old, new string) func(Outcome) error {
		return becomes(strings.Replace(rich(name), old, new, 1))
	}
	clauses := []Clause{
		{
			Name: "set", Does: `sets spec.added.deep, of which there is nothing, to the string x/~"€`,
			check: with("set", `"spec":{`, `"spec":{"added":{"deep":"x/~\"€"},`),
		},
		{
			Name: "set by an odd name", Does: `sets metadata.labels['a.b/c~d'] to the string 1`,
			check: with("set by an odd name", `"metadata":{`, `"metadata":{"labels":{"a.b/c~d":"1"},`),
		},
		{
			Name: "set twice", Does: `sets spec.made.a, of which there is nothing, to 1, and then spec.made.b to 2`,
			check: with("set twice", `"spec":{`, `"spec":{"made":{"a":1,"b":2},`),
		},
		{
			Name: "set in an element", Does: "sets spec.list[1].name to the string changed",
			check: with("set in an element", `"name":"b"`, `"name":"changed"`),
		},
		{
			Name: "replace", Does: "sets spec.n to the integer 9007199254740995 and spec.yes to false",
			check: becomes(strings.Replace(strings.Replace(rich("replace"), "9007199254740993", "9007199254740995", 1), "true", "false", 1)),
		},
		{
			Name: "copy", Does: "sets spec.copy to the JSON at spec.list",
			check: with("copy", `"spec":{`, `"spec":{"copy":[{"name":"a","n":1},{"name":"b","n":2}],`),
		},
		{
			Name: "delete", Does: "deletes spec.small, and spec.nothing, which is not there",
			check: with("delete", `"small":-5,`, ``),
		},
		{
			Name: "delete and set", Does: "deletes spec.map and then sets spec.map.new to true",
			check: with("delete and set", `{"k":"v","x/y":"z"}`, `{"new":true}`),
		},
		{Name: "keep", Does: "changes nothing", check: unchanged},
	}
	for i := range clauses {
		clauses[i].Op, clauses[i].object = abi.OpDefault, rich(clauses[i].Name)
	}
	return append(clauses,
		Clause{
			Name: "restore", Op: abi.OpPrepareForUpdate, Does: "sets status to the JSON at spec of the old object",
			check: becomes(strings.TrimSuffix(object("restore"), "}") + `,"status":{"case":"before","filler":"","n":9007199254740993}}`),
		},
		Clause{
			Name: "restore", Op: abi.OpStatusPrepare, Does: "sets spec.case to that of the old object",
			check: becomes(object("before")),
		},
		Clause{
			Name: "canonical", Op: abi.OpCanonicalize, Does: "deletes spec.filler",
			check: becomes(strings.Replace(object("canonical"), `"filler":"",`, ``, 1)),
		},
		Clause{
			Name: "two objects", Op: abi.OpConvert, Does: "sets apiVersion of each object of the array to the target version",
			object: `[` + object("1") + `,` + rich("2") + `]`,
			call:   func(c *Call) { c.TargetVersion = "example.com/v2" },
			check:  becomes(strings.ReplaceAll(`[`+object("1")+`,`+rich("2")+`]`, "example.com/v1", "example.com/v2")),
		},
		Clause{
			Name: "response", Op: abi.OpConnect, Does: `responds with an object: name is metadata.name of the object, said is the JSON at say of the options`,
			call:  func(c *Call) { c.Options = `{"say":["a",{"b":1.50}]}` },
			check: becomes(`{"name":"thing","said":["a",{"b":1.50}]}`),
		})
}
