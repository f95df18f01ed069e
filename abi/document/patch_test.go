package document

import (
	"strings"
	"testing"
)

func TestApplyPatch(t *testing.T) {
	tests := []struct {
		name, object, patch, want, err string
	}{
		{"add member", `{"a":1}`, `[{"op":"add","path":"/b","value":[1]}]`, `{"a":1,"b":[1]}`, ""},
		{"add replaces", `{"a":1}`, `[{"op":"add","path":"/a","value":null}]`, `{"a":null}`, ""},
		{"add into array", `{"a":[1,3]}`, `[{"op":"add","path":"/a/1","value":2},{"op":"add","path":"/a/-","value":4}]`, `{"a":[1,2,3,4]}`, ""},
		{"add to added", `{}`, `[{"op":"add","path":"/a","value":{}},{"op":"add","path":"/a/b","value":1}]`, `{"a":{"b":1}}`, ""},
		{"add root", `{"a":1}`, `[{"op":"add","path":"","value":{"b":2}}]`, `{"b":2}`, ""},
		{"escapes", `{"a/b":1,"m~n":2}`, `[{"op":"replace","path":"/a~1b","value":3},{"op":"remove","path":"/m~0n"}]`, `{"a/b":3}`, ""},
		{"tilde one", `{"~1":1}`, `[{"op":"remove","path":"/~01"}]`, `{}`, ""},
		{"remove element", `{"a":[1,2,3]}`, `[{"op":"remove","path":"/a/0"}]`, `{"a":[2,3]}`, ""},
		{"replace nested", `{"a":{"b":{"c":1}}}`, `[{"op":"replace","path":"/a/b/c","value":"x"}]`, `{"a":{"b":{"c":"x"}}}`, ""},
		{"move", `{"a":{"x":1},"b":{}}`, `[{"op":"move","from":"/a/x","path":"/b/y"}]`, `{"a":{},"b":{"y":1}}`, ""},
		{"copy is apart", `{"a":{"x":1}}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"replace","path":"/b/x","value":2}]`, `{"a":{"x":1},"b":{"x":2}}`, ""},
		{"test holds", `{"a":{"y":2,"x":1}}`, `[{"op":"test","path":"/a","value":{"x":1,"y":2}}]`, `{"a":{"x":1,"y":2}}`, ""},
		{"big number kept", `{"a":12345678901234567890,"b":1}`, `[{"op":"remove","path":"/b"}]`, `{"a":12345678901234567890}`, ""},
		{"test fails", `{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, "", "operation 0: /a: test failed"},
		{"replace makes a member", `{"a":1}`, `[{"op":"replace","path":"/b","value":2}]`, `{"a":1,"b":2}`, ""},
		{"replace makes no object", `{"a":1}`, `[{"op":"replace","path":"/b/c","value":2}]`, "", "operation 0: /b does not exist"},
		{"replace makes no element", `{"a":[1]}`, `[{"op":"replace","path":"/a/1","value":2}]`, "", "operation 0: /a/1 does not exist"},
		{"an absent member is null", `{"a":1}`, `[{"op":"test","path":"/b","value":null}]`, `{"a":1}`, ""},
		{"an absent member is nothing else", `{"a":1}`, `[{"op":"test","path":"/b","value":1}]`, "", "operation 0: /b does not exist"},
		{"add below nothing", `{}`, `[{"op":"add","path":"/a/b","value":2}]`, "", "operation 0: /a does not exist"},
		{"add below string", `{"a":"s"}`, `[{"op":"add","path":"/a/b","value":2}]`, "", "operation 0: /a is neither an object nor an array"},
		{"index beyond", `{"a":[1]}`, `[{"op":"add","path":"/a/2","value":2}]`, "", "operation 0: /a/2 is not an index of its array"},
		{"leading zero", `{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, "", "operation 0: /a/01 does not exist"},
		{"move into itself", `{"a":{}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, "", "operation 0: move into itself"},
		{"remove root", `{}`, `[{"op":"remove","path":""}]`, "", "operation 0: the whole object cannot be removed"},
		{"no value", `{}`, `[{"op":"add","path":"/a"}]`, "", "operation 0: add without a value"},
		{"unknown op", `{}`, `[{"op":"merge","path":"/a"}]`, "", `operation 0: op "merge" does not exist`},
		{"no path", `{}`, `[{"op":"remove"}]`, "", "operation 0: path: not a string"},
		{"relative path", `{}`, `[{"op":"remove","path":"a"}]`, "", `operation 0: path: "a" does not begin with /`},
		{"not a list", `{}`, `{}`, "", "not an array of operations"},
		{"copy bomb", `{"a":"` + strings.Repeat("x", 1<<20) + `","l":[]}`,
			`[` + strings.Repeat(`{"op":"copy","from":"/a","path":"/l/-"},`, 20) + `{"op":"remove","path":"/l"}]`, "", "operation 11: copies and tests too much"},
		{"moves of a large array", `{"a":[` + strings.Repeat("1,", 200_000) + `1]}`,
			`[` + strings.Repeat(`{"op":"add","path":"/a/0","value":1},`, 5000) + `{"op":"remove","path":"/a"}]`, "", "operation 335: moves too many array elements"},
		{"result too large", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`,
			`[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"},{"op":"copy","from":"/a","path":"/d"}]`, "", "makes an object of 4194333 bytes, more than 3145728"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			object, err := Parse([]byte(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			before := string(object.Bytes())
			patch, err := Parse([]byte(tc.patch))
			if err != nil {
				t.Fatal(err)
			}
			got, err := object.ApplyPatch(patch, 3<<20)
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Fatalf("error %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Bytes()) != tc.want {
				t.Errorf("got %s, want %s", got.Bytes(), tc.want)
			}
			if string(object.Bytes()) != before {
				t.Error("the object changed")
			}
		})
	}
}
