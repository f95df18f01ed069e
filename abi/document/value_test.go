package document

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func parse(tb testing.TB, raw string) *Document {
	tb.Helper()
	d, err := Parse([]byte(raw))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestValueScalars(t *testing.T) {
	type reading struct {
		kind  Kind
		text  string
		b, ok bool
		i     int64
		isInt bool
		f     float64
		isNum bool
	}
	tests := []struct {
		raw  string
		want reading
	}{
		{`null`, reading{kind: Null}},
		{`true`, reading{kind: Bool, b: true, ok: true}},
		{`false`, reading{kind: Bool, ok: true}},
		{`""`, reading{kind: String}},
		{`"x\n\u0001é"`, reading{kind: String, text: "x\n\x01é"}},
		{`"12"`, reading{kind: String, text: "12"}},
		{`0`, reading{kind: Number, isInt: true, isNum: true}},
		{`-0`, reading{kind: Number, isInt: true, f: math.Copysign(0, -1), isNum: true}},
		{`9007199254740993`, reading{kind: Number, i: 9007199254740993, isInt: true, f: 9007199254740992, isNum: true}},
		{`9223372036854775807`, reading{kind: Number, i: math.MaxInt64, isInt: true, f: 1 << 63, isNum: true}},
		{`-9223372036854775808`, reading{kind: Number, i: math.MinInt64, isInt: true, f: -1 << 63, isNum: true}},
		{`9223372036854775808`, reading{kind: Number, f: 1 << 63, isNum: true}},
		{`1.0`, reading{kind: Number, f: 1, isNum: true}},
		{`1e2`, reading{kind: Number, f: 100, isNum: true}},
		{`[]`, reading{kind: Array}},
		{`{}`, reading{kind: Object}},
	}
	for _, tc := range tests {
		t.Run(tc.raw, func(t *testing.T) {
			v := parse(t, tc.raw).Root()
			got := reading{kind: v.Kind(), text: v.String()}
			got.b, got.ok = v.Bool()
			got.i, got.isInt = v.Int()
			got.f, got.isNum = v.Float()
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
			if string(v.Raw()) != tc.raw {
				t.Errorf("raw is %s", v.Raw())
			}
			if v.Len() != 0 {
				t.Errorf("length is %d", v.Len())
			}
		})
	}
}

func TestAbsentValue(t *testing.T) {
	object := parse(t, `{"a":{"b":"text"},"n":null}`)
	tests := []struct {
		name string
		v    Value
	}{
		{"zero", Value{}},
		{"no such member", object.Get("x")},
		{"below no such member", object.Get("x", "y", "z")},
		{"below a string", object.Get("a", "b", "c")},
		{"below null", object.Get("n", "c")},
		{"prefix of a name", parse(t, `{"name":1}`).Get("nam")},
		{"element of an object", object.Root().Index(0)},
		{"member of an array", parse(t, `[{"a":1}]`).Get("a")},
		{"behind an array", parse(t, `[1]`).Root().Index(1)},
		{"before an array", parse(t, `[1]`).Root().Index(-1)},
		{"query", object.Root().QueryFirst(mustPath(t, "a.x"))},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			v := tc.v
			if v.Exists() || v.Kind() != Absent || v.Raw() != nil || v.String() != "" || v.Len() != 0 || v.Interface() != nil || v.Document() != nil {
				t.Errorf("value is %s", v.Raw())
			}
			if _, ok := v.Bool(); ok {
				t.Error("is a bool")
			}
			if _, ok := v.Int(); ok {
				t.Error("is an integer")
			}
			if _, ok := v.Float(); ok {
				t.Error("is a number")
			}
			for name := range v.Members() {
				t.Errorf("member %q", name)
			}
			for i := range v.Elements() {
				t.Errorf("element %d", i)
			}
			if !v.Equal(Value{}) || v.Equal(object.Get("n")) || object.Get("n").Equal(v) {
				t.Error("equality is wrong")
			}
			if v.Get("a").Exists() || v.Index(0).Exists() || v.QueryFirst(mustPath(t, "a")).Exists() || v.QueryFirst(Path{}).Exists() {
				t.Error("something is below it")
			}
		})
	}
}

func TestValueReads(t *testing.T) {
	d := parse(t, `{"spec":{"containers":[{"name":"a"},{"name":"b","ports":[80,443,[1],{}]}],"\"q\"":1,"é":2},"z":{}}`)
	containers := d.Get("spec", "containers")
	if got := containers.Index(1).Get("name").String(); got != "b" {
		t.Errorf("name is %q", got)
	}
	ports := containers.Index(1).Get("ports")
	for i, want := range []string{"80", "443", "[1]", "{}"} {
		if got := string(ports.Index(i).Raw()); got != want {
			t.Errorf("port %d is %s", i, got)
		}
	}
	if got := string(parse(t, `[10,11,12]`).Root().Index(2).Raw()); got != "12" {
		t.Errorf("element is %s", got)
	}
	if i, _ := d.Get("spec", `"q"`).Int(); i != 1 {
		t.Error("a name with quotes is not found")
	}
	if i, _ := d.Get("spec", "é").Int(); i != 2 {
		t.Error("a name beyond ASCII is not found")
	}
	if d.Get("Spec").Exists() {
		t.Error("names are not case-sensitive")
	}
	if d.Root().Len() != 2 || containers.Len() != 2 || d.Get("spec").Len() != 3 || ports.Len() != 4 {
		t.Error("a length is wrong")
	}
	var names []string
	for name, v := range d.Get("spec").Members() {
		if !v.Equal(d.Get("spec", name)) {
			t.Errorf("member %q is %s", name, v.Raw())
		}
		names = append(names, name)
	}
	if want := []string{`"q"`, "containers", "é"}; !slices.Equal(names, want) {
		t.Errorf("names are %q", names)
	}
	for i, v := range ports.Elements() {
		if !v.Equal(ports.Index(i)) {
			t.Errorf("element %d is %s", i, v.Raw())
		}
		if i == 2 {
			break
		}
	}
	sub := containers.Document()
	if !sub.Root().Equal(containers) || sub.Get("name").Exists() || sub.Root().Index(0).Get("name").String() != "a" {
		t.Errorf("document is %s", sub.Bytes())
	}
	if d.Root().Document() != d {
		t.Error("the root's document is another")
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	canonical, _, _ := forms(t)
	d := FromCanonical(canonical)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	path := mustPath(t, "spec.template.spec.containers[*].env[1].valueFrom.fieldRef.fieldPath")
	escaped := parse(t, `{"a\nb":1,"a\nc":2}`)
	tests := []struct {
		name string
		run  func() bool
	}{
		{"get", func() bool { return d.Get("spec", "template", "spec", "dnsPolicy").String() == "ClusterFirst" }},
		{"get nothing", func() bool { return !d.Get("metadata", "deletionTimestamp").Exists() }},
		{"get an escaped name", func() bool { i, ok := escaped.Get("a\nc").Int(); return ok && i == 2 }},
		{"members", func() bool {
			n := 0
			for name, v := range d.Get("metadata", "labels").Members() {
				n += len(name) + len(v.String())
			}
			return n > 0
		}},
		{"elements", func() bool {
			n := 0
			for _, v := range d.Get("spec", "template", "spec", "containers").Elements() {
				n += v.Len()
			}
			return n > 0
		}},
		{"numbers", func() bool {
			i, isInt := d.Get("spec", "replicas").Int()
			f, isNum := d.Get("spec", "replicas").Float()
			return isInt && isNum && i == 3 && f == 3
		}},
		{"query", func() bool { return d.Root().QueryFirst(path).String() == "metadata.name" }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(100, func() {
				if !tc.run() {
					t.Fatal("wrong value")
				}
			}); got != 0 {
				t.Errorf("%v allocations", got)
			}
		})
	}
}

func TestFromValue(t *testing.T) {
	doc := parse(t, `{"b":[1.0],"a":"x"}`)
	var nilDocument *Document
	tests := []struct {
		name  string
		value any
		want  string // the document, or what the error holds
		fails bool
	}{
		{name: "nil", value: nil, want: `null`},
		{name: "bools", value: []any{true, false}, want: `[true,false]`},
		{name: "integers", value: []any{int(1), int8(-2), int16(3), int32(4), int64(math.MaxInt64), uint(5), uint8(6), uint16(7), uint32(8), uint64(math.MaxUint64)}, want: `[1,-2,3,4,9223372036854775807,5,6,7,8,18446744073709551615]`},
		{name: "floats", value: []any{1.0, 0.5, 1e20, 1e21, 1e-6, 1e-7, math.Copysign(0, -1), 123456789.0, float32(0.1), math.MaxFloat64}, want: `[1,0.5,100000000000000000000,1e+21,0.000001,1e-7,-0,123456789,0.1,1.7976931348623157e+308]`},
		{name: "numbers", value: []any{json.Number("1.00"), json.Number("-1E5"), json.Number("")}, want: `[1.00,-1E5,0]`},
		{name: "strings", value: "<a&b>\"\\\n\x01\u2028é", want: "\"<a&b>\\\"\\\\\\n\\u0001\u2028é\""},
		{name: "maps", value: map[string]any{"b": map[string]string{"d": "1", "c": "2"}, "a": []string{"x"}, "\"": 1, "#": 2}, want: `{"\"":1,"#":2,"a":["x"],"b":{"c":"2","d":"1"}}`},
		{name: "empty", value: []any{map[string]any{}, []any{}, []string{}}, want: `[{},[],[]]`},
		{name: "nil within", value: []any{map[string]any(nil), []any(nil), []string(nil), json.RawMessage(nil), map[string]string(nil)}, want: `[null,null,null,null,null]`},
		{name: "raw message", value: map[string]any{"a": json.RawMessage(`{"c" : 1.0, "b" : "\u003c"}`)}, want: `{"a":{"b":"<","c":1.0}}`},
		{name: "document", value: doc, want: `{"a":"x","b":[1.0]}`},
		{name: "document within", value: []any{doc, doc.Get("b")}, want: `[{"a":"x","b":[1.0]},[1.0]]`},
		{name: "value", value: doc.Get("b"), want: `[1.0]`},
		{name: "structure", value: struct {
			B string `json:"b"`
			A int    `json:"a"`
		}{"<", 1}, want: `{"a":1,"b":"<"}`},
		{name: "other map", value: map[string]int{"b": 1, "a": 2}, want: `{"a":2,"b":1}`},
		{name: "invalid UTF-8", value: []any{"a\xff"}, want: `string "a\xff" is not valid UTF-8`, fails: true},
		{name: "invalid UTF-8 in a name", value: map[string]any{"a\xff": 1}, want: `string "a\xff" is not valid UTF-8`, fails: true},
		{name: "NaN", value: math.NaN(), want: "number NaN has no JSON spelling", fails: true},
		{name: "infinity", value: []any{math.Inf(-1)}, want: "number -Inf has no JSON spelling", fails: true},
		{name: "no number", value: json.Number("1x"), want: `invalid number "1x"`, fails: true},
		{name: "no number at all", value: json.Number("x"), want: `invalid number "x"`, fails: true},
		{name: "half a number", value: json.Number("1."), want: "unexpected end of JSON input", fails: true},
		{name: "invalid raw message", value: json.RawMessage(`{`), want: "unexpected end of JSON input", fails: true},
		{name: "duplicate in a raw message", value: json.RawMessage(`{"a":1,"a":2}`), want: `duplicate field "a"`, fails: true},
		{name: "channel", value: make(chan int), want: "value of type chan int: json: unsupported type", fails: true},
		{name: "absent value", value: Value{}, want: "document is absent", fails: true},
		{name: "absent value within", value: []any{Value{}}, want: "document is absent", fails: true},
		{name: "nil document", value: nilDocument, want: "document is absent", fails: true},
		{name: "invalid document", value: FromCanonical([]byte(`{ }`)), want: "not canonical", fails: true},
		{name: "deep", value: nested(MaxDepth), want: strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)},
		{name: "brackets in a string", value: []any{json.RawMessage(`["` + strings.Repeat(`[{\"`, MaxDepth) + `"]`)}, want: `[["` + strings.Repeat(`[{\"`, MaxDepth) + `"]]`},
		{name: "many brackets beside each other", value: []any{json.RawMessage(`[` + strings.Repeat(`[{}],`, MaxDepth) + `1]`)}, want: `[[` + strings.Repeat(`[{}],`, MaxDepth) + `1]]`},
		{name: "too deep", value: nested(MaxDepth + 1), want: "document is nested deeper than 10000 containers", fails: true},
		{name: "deep document within", value: []any{json.RawMessage(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))}, want: "nested deeper", fails: true},
		{name: "in itself", value: cycle(), want: "nested deeper", fails: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d, err := FromValue(tc.value)
			if tc.fails {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error is %v, want %s", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Bytes()); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			checkTape(t, d)
		})
	}
}

func nested(depth int) any {
	v := []any{}
	for range depth - 1 {
		v = []any{v}
	}
	return v
}

func cycle() any {
	m := map[string]any{}
	m["self"] = []any{m}
	return m
}

// Floats are spelled as encoding/json spells them.
func TestFloatSpelling(t *testing.T) {
	for _, f := range []float64{0, math.Copysign(0, -1), 1, -1, 1.5, 1e20, 1e21, 1e22, 1e-5, 1e-6, 1e-7, 1e-9, 1e-10, 1e100, 1 << 53, 1 << 62, math.MaxInt64, math.SmallestNonzeroFloat64, math.MaxFloat64, math.Pi} {
		want, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		d, err := FromValue(f)
		if err != nil {
			t.Fatal(err)
		}
		if string(d.Bytes()) != string(want) {
			t.Errorf("got %s, want %s", d.Bytes(), want)
		}
		if got, _ := d.Root().Float(); got != f {
			t.Errorf("%v became %v", f, got)
		}
	}
}

func TestMapRoundTrip(t *testing.T) {
	canonical, _, _ := forms(t)
	m, err := FromCanonical(canonical).Map()
	if err != nil {
		t.Fatal(err)
	}
	d, err := FromValue(m)
	if err != nil {
		t.Fatal(err)
	}
	if string(d.Bytes()) != string(canonical) {
		t.Errorf("got %s", d.Bytes())
	}
	again, err := d.Map()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m, again) {
		t.Error("the second map differs")
	}
	for _, raw := range []string{`[]`, `null`, `"x"`} {
		if _, err := parse(t, raw).Map(); err == nil {
			t.Errorf("%s made a map", raw)
		}
	}
}

func TestMarshalJSON(t *testing.T) {
	raw, err := json.Marshal(map[string]any{"d": parse(t, `{"b":1.0,"a":[]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != `{"d":{"a":[],"b":1.0}}` {
		t.Errorf("got %s", raw)
	}
}

func TestConcurrentFirstReads(t *testing.T) {
	canonical, _, _ := forms(t)
	d := FromCanonical(canonical)
	done := make(chan int64)
	for range 8 {
		go func() {
			i, _ := d.Get("spec", "replicas").Int()
			done <- i
		}()
	}
	for range 8 {
		if got := <-done; got != 3 {
			t.Errorf("replicas are %d", got)
		}
	}
}

func TestKindString(t *testing.T) {
	want := []string{"absent", "null", "bool", "number", "string", "array", "object", "kind 7"}
	for i, w := range want {
		if got := Kind(i).String(); got != w {
			t.Errorf("kind %d is %q", i, got)
		}
	}
}

func TestWidest(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{`1`, 0},
		{`"text"`, 4},
		{`{"a":[1,2,3],"b":{}}`, 3},
		{`{"a":["1234567"],"longer name":1}`, 11},
		{`{"a":1,"b":2,"c":3}`, 3},
	}
	for _, tc := range tests {
		d, err := Parse([]byte(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if n := d.Root().Widest(); n != tc.want {
				t.Errorf("%s: got %d, want %d", tc.text, n, tc.want)
			}
		}
		if n := d.Get("a").Widest(); d.Get("a").Exists() && n != tc.want {
			t.Errorf("%s: got %d of a part, want %d", tc.text, n, tc.want)
		}
	}
	if n := (Value{}).Widest(); n != 0 {
		t.Errorf("got %d of nothing", n)
	}
}
