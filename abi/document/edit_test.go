package document

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	const base = `{"a":{"b":1,"d":[10,{"x":1},30]},"n":null,"s":"text"}`
	other := parse(t, `{"p":{"q":1.50},"r":[]}`)
	var nilDocument *Document
	tests := []struct {
		name string
		base string // when another
		edit func(*Edit)
		want string // empty: the document itself
	}{
		{name: "nothing", edit: func(e *Edit) {}},
		{name: "replace", edit: func(e *Edit) { e.Set(2, "a", "b") }, want: `{"a":{"b":2,"d":[10,{"x":1},30]},"n":null,"s":"text"}`},
		{name: "same value", edit: func(e *Edit) { e.Set(1, "a", "b") }},
		{name: "there and back", edit: func(e *Edit) { e.Set(2, "a", "b").Set(1, "a", "b") }},
		{name: "insert first", edit: func(e *Edit) { e.Set("x", "A") }, want: `{"A":"x","a":{"b":1,"d":[10,{"x":1},30]},"n":null,"s":"text"}`},
		{name: "insert between", edit: func(e *Edit) { e.Set("x", "a", "c") }, want: `{"a":{"b":1,"c":"x","d":[10,{"x":1},30]},"n":null,"s":"text"}`},
		{name: "insert last", edit: func(e *Edit) { e.Set("x", "z") }, want: `{"a":{"b":1,"d":[10,{"x":1},30]},"n":null,"s":"text","z":"x"}`},
		{name: "insert in an empty object", base: `{}`, edit: func(e *Edit) { e.Set(1, "a") }, want: `{"a":1}`},
		{name: "create objects", base: `{"m":1}`, edit: func(e *Edit) { e.Set(1, "a", "b", "c") }, want: `{"a":{"b":{"c":1}},"m":1}`},
		{name: "null becomes an object", edit: func(e *Edit) { e.Set(1, "n", "x") }, want: `{"a":{"b":1,"d":[10,{"x":1},30]},"n":{"x":1},"s":"text"}`},
		{name: "null document becomes an object", base: `null`, edit: func(e *Edit) { e.Set(1, "n", "x") }, want: `{"n":{"x":1}}`},
		{name: "several", base: `{"b":1,"d":2}`, edit: func(e *Edit) { e.Set(9, "e").Set(8, "a").Delete("b").Set(7, "c").Set(6, "d") }, want: `{"a":8,"c":7,"d":6,"e":9}`},
		{name: "several in one object", base: `{"m":{"x":0}}`, edit: func(e *Edit) { e.Set(2, "m", "y").Set(1, "m", "a").Delete("m", "x") }, want: `{"m":{"a":1,"y":2}}`},
		{name: "names in byte order", base: `{"\"":1,"#":2,"é":3}`, edit: func(e *Edit) { e.Set(0, "!").Set(0, "\"a").Set(0, "z").Set(0, "\n") }, want: `{"\n":0,"!":0,"\"":1,"\"a":0,"#":2,"z":0,"é":3}`},
		{name: "replace a name with an escape", base: `{"a\nb":1}`, edit: func(e *Edit) { e.Set(2, "a\nb") }, want: `{"a\nb":2}`},
		{name: "delete first", base: `{"a":1,"b":2,"c":3}`, edit: func(e *Edit) { e.Delete("a") }, want: `{"b":2,"c":3}`},
		{name: "delete between", base: `{"a":1,"b":2,"c":3}`, edit: func(e *Edit) { e.Delete("b") }, want: `{"a":1,"c":3}`},
		{name: "delete last", base: `{"a":1,"b":2,"c":3}`, edit: func(e *Edit) { e.Delete("c") }, want: `{"a":1,"b":2}`},
		{name: "delete all", base: `{"a":1,"b":2}`, edit: func(e *Edit) { e.Delete("b").Delete("a") }, want: `{}`},
		{name: "delete nested", base: `{"a":{"b":{"c":1,"d":2}}}`, edit: func(e *Edit) { e.Delete("a", "b", "c") }, want: `{"a":{"b":{"d":2}}}`},
		{name: "delete what is absent", edit: func(e *Edit) {
			e.Delete("x").Delete("x", "y").Delete("s", "y").Delete("n", "y").Delete("a", "d", "3").Delete("a", "d", "x").Delete("a", "d", "-").Delete("a", "d", "0", "x")
		}},
		{name: "delete what was set", edit: func(e *Edit) { e.Set(1, "z").Delete("z") }},
		{name: "delete below what was set", base: `{}`, edit: func(e *Edit) { e.Set(1, "a", "b").Set(2, "a", "c").Delete("a", "b") }, want: `{"a":{"c":2}}`},
		{name: "set what was deleted", base: `{"a":{"x":1}}`, edit: func(e *Edit) { e.Delete("a").Set(2, "a", "y") }, want: `{"a":{"y":2}}`},
		{name: "delete twice", base: `{"a":1}`, edit: func(e *Edit) { e.Delete("a").Delete("a").Delete("a", "b") }, want: `{}`},
		{name: "set below what was set", base: `{}`, edit: func(e *Edit) { e.Set(map[string]any{"x": 1}, "a").Set(2, "a", "y") }, want: `{"a":{"x":1,"y":2}}`},
		{name: "set above what was set", base: `{}`, edit: func(e *Edit) { e.Set(2, "a", "y").Set(map[string]any{"x": 1}, "a") }, want: `{"a":{"x":1}}`},
		{name: "whole document", edit: func(e *Edit) { e.Set([]any{1}) }, want: `[1]`},
		{name: "whole document, then below", edit: func(e *Edit) { e.Set(map[string]any{}).Set(1, "a") }, want: `{"a":1}`},
		{name: "element", edit: func(e *Edit) { e.Set("x", "a", "d", "0") }, want: `{"a":{"b":1,"d":["x",{"x":1},30]},"n":null,"s":"text"}`},
		{name: "below an element", edit: func(e *Edit) { e.Set(2, "a", "d", "1", "y") }, want: `{"a":{"b":1,"d":[10,{"x":1,"y":2},30]},"n":null,"s":"text"}`},
		{name: "append", edit: func(e *Edit) { e.Set(40, "a", "d", "-").Set(50, "a", "d", "-") }, want: `{"a":{"b":1,"d":[10,{"x":1},30,40,50]},"n":null,"s":"text"}`},
		{name: "append an object", base: `{"l":[]}`, edit: func(e *Edit) { e.Set("a", "l", "-", "name").Set(1, "l", "0", "port") }, want: `{"l":[{"name":"a","port":1}]}`},
		{name: "append to what was set", base: `{}`, edit: func(e *Edit) { e.Set([]any{}, "l").Set(1, "l", "-") }, want: `{"l":[1]}`},
		{name: "delete behind a touched array", base: `{"l":[0,{}]}`, edit: func(e *Edit) { e.Set(2, "l", "-").Delete("l", "3").Delete("l", "x").Delete("l", "1", "a") }, want: `{"l":[0,{},2]}`},
		{name: "delete elements", base: `{"l":[0,1,2,3]}`, edit: func(e *Edit) { e.Delete("l", "1").Delete("l", "2") }, want: `{"l":[0,2]}`},
		{name: "delete every element", base: `[0]`, edit: func(e *Edit) { e.Delete("0") }, want: `[]`},
		{name: "delete below an element", base: `[{"a":1}]`, edit: func(e *Edit) { e.Delete("0", "a") }, want: `[{}]`},
		{name: "replace a touched array", base: `{"l":[1]}`, edit: func(e *Edit) { e.Set(2, "l", "-").Set("x", "l") }, want: `{"l":"x"}`},
		{name: "a digit is a member's name", base: `{}`, edit: func(e *Edit) { e.Set(1, "0", "-") }, want: `{"0":{"-":1}}`},
		{name: "a document", base: `{}`, edit: func(e *Edit) { e.Set(other, "o") }, want: `{"o":{"p":{"q":1.50},"r":[]}}`},
		{name: "a value", base: `{}`, edit: func(e *Edit) { e.Set(other.Get("p", "q"), "o") }, want: `{"o":1.50}`},
		{name: "below a value", base: `{}`, edit: func(e *Edit) { e.Set(other.Get("p"), "o").Set(2, "o", "r") }, want: `{"o":{"q":1.50,"r":2}}`},
		{name: "an absent value", base: `{"o":1}`, edit: func(e *Edit) { e.Set(other.Get("x"), "o").Set(nilDocument, "p") }, want: `{}`},
		{name: "raw message", base: `{}`, edit: func(e *Edit) { e.Set(json.RawMessage(`{"b":1, "a":1.0}`), "o") }, want: `{"o":{"a":1.0,"b":1}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.base == "" {
				tc.base = base
			}
			d := FromCanonical([]byte(tc.base))
			e := d.Edit()
			tc.edit(e)
			got, err := e.Document()
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if got != d {
					t.Fatalf("got %s, want the document itself", got.Bytes())
				}
				return
			}
			if string(got.Bytes()) != tc.want {
				t.Fatalf("got  %s\nwant %s", got.Bytes(), tc.want)
			}
			checkTape(t, got)
			if string(d.Bytes()) != tc.base {
				t.Errorf("the document edited became %s", d.Bytes())
			}
		})
	}
}

func TestEditErrors(t *testing.T) {
	const base = `{"a":{"s":"text"},"l":[1,{"i":1}]}`
	deep := make([]string, MaxDepth+1)
	tests := []struct {
		name string
		edit func(*Edit)
		want string
	}{
		{"below a string", func(e *Edit) { e.Set(1, "a", "s", "x") }, `set "a.s.x": "a.s" is of kind string, neither object nor array`},
		{"below a number that was set", func(e *Edit) { e.Set(1, "b").Set(1, "b", "x") }, `set "b.x": "b" is of kind number, neither object nor array`},
		{"below a scalar document", func(e *Edit) { e.Set(1).Set(1, "a") }, `set "a": document is of kind number, neither object nor array`},
		{"no index", func(e *Edit) { e.Set(1, "l", "first") }, `set "l.first": "l" is an array, and "first" no index of it`},
		{"leading zero", func(e *Edit) { e.Set(1, "l", "00") }, `set "l.00": "l" is an array, and "00" no index of it`},
		{"sign", func(e *Edit) { e.Set(1, "l", "+1") }, `set "l.+1": "l" is an array, and "+1" no index of it`},
		{"behind the array", func(e *Edit) { e.Set(1, "l", "2") }, `set "l.2": "l" is an array of 2 elements, index 2 is not in it`},
		{"value", func(e *Edit) { e.Set(make(chan int), "a") }, `set "a": value of type chan int: json: unsupported type: chan int`},
		{"document", func(e *Edit) { e.Set(FromCanonical([]byte(`{ }`)), "a") }, `set "a": document is not canonical JSON`},
		{"delete all", func(e *Edit) { e.Delete() }, `delete: path is empty`},
		{"set nothing", func(e *Edit) { e.Set(Value{}) }, `delete: path is empty`},
		{"the first error counts", func(e *Edit) { e.Set(1, "a", "s", "x").Set(1, "l", "x").Delete() }, `set "a.s.x": "a.s" is of kind string, neither object nor array`},
		{"too deep", func(e *Edit) { e.Set(1, deep...) }, `document is nested deeper than 10000 containers`},
		{"too deep with the value", func(e *Edit) {
			e.Set(json.RawMessage(strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth)), "a")
		}, `set "a": document is nested deeper than 10000 containers`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := FromCanonical([]byte(base)).Edit()
			tc.edit(e)
			_, err := e.Document()
			if err == nil || !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// The cases are those of RFC 7386, appendix A, and some more.
func TestApplyMergePatch(t *testing.T) {
	tests := []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":1.0,"z":1e2}`, `{"b":2.00}`, `{"a":1.0,"b":2.00,"z":1e2}`},
		{`{"a":9007199254740993}`, `{"b":9007199254740995}`, `{"a":9007199254740993,"b":9007199254740995}`},
		{`{"a":[1,null]}`, `{"b":[null,{"c":null}]}`, `{"a":[1,null],"b":[null,{"c":null}]}`},
		{`{"\"":1,"#":2}`, `{"\"":null,"!":3}`, `{"!":3,"#":2}`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":1}}`},
		{`{"a":1}`, `{"a":{}}`, `{"a":{}}`},
	}
	for _, tc := range tests {
		t.Run(tc.target+tc.patch, func(t *testing.T) {
			d := parse(t, tc.target)
			got, err := d.ApplyMergePatch(parse(t, tc.patch))
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Bytes()) != tc.want {
				t.Errorf("got %s, want %s", got.Bytes(), tc.want)
			}
			if d.Equal(got) && got != d {
				t.Error("nothing changed, but it is another document")
			}
			checkTape(t, got)
		})
	}
	if _, err := parse(t, `{}`).ApplyMergePatch(FromCanonical([]byte(`{ }`))); err == nil || err.Error() != "merge patch: document is not canonical JSON" {
		t.Errorf("error is %v", err)
	}
	deep := parse(t, strings.Repeat(`{"a":`, MaxDepth-1)+"{}"+strings.Repeat("}", MaxDepth-1))
	got, err := parse(t, `{}`).ApplyMergePatch(deep)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Equal(deep) {
		t.Error("a deep patch is not what comes of it")
	}
}
