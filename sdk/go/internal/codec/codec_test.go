package codec_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/sdk/go/internal/codec"
)

type inner struct {
	A string `json:"a,omitempty"`
	B int    `json:"b"`
}

type embedded struct {
	Kind string `json:"kind,omitempty"`
}

type everything struct {
	embedded
	Inline  inner             `json:",inline"`
	String  string            `json:"string"`
	Bool    bool              `json:"bool,omitempty"`
	Int8    int8              `json:"int8,omitempty"`
	Int64   int64             `json:"int64"`
	Uint    uint              `json:"uint,omitempty"`
	Float   float64           `json:"float,omitempty"`
	Float32 float32           `json:"float32,omitempty"`
	Bytes   []byte            `json:"bytes,omitempty"`
	Pointer *int32            `json:"pointer,omitempty"`
	Struct  *inner            `json:"struct,omitempty"`
	List    []inner           `json:"list,omitempty"`
	Strings []string          `json:"strings,omitempty"`
	Array   [2]int            `json:"array"`
	Labels  map[string]string `json:"labels,omitempty"`
	Map     map[string]*inner `json:"map,omitempty"`
	Any     any               `json:"any,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	Time    time.Time         `json:"time,omitzero"`
	Ignored string            `json:"-"`
	hidden  string            //nolint:unused // that it is left alone is the test
	NoTag   string
}

// full has a value in every field.
const full = `{"NoTag":"n","a":"x","any":{"k":[1,"two",null,true,2.5]},"array":[1,2],"b":4,"bool":true,"bytes":"YWI=",
	"float":1.5e-7,"float32":0.25,"int64":-9007199254740993,"int8":-128,"kind":"K","labels":{"a/b":"c","d":""},
	"list":[{"a":"1","b":1},{"b":2}],"map":{"m":{"b":3},"n":null},"pointer":7,"raw":{"z":[1]},"string":"é\"\\\u0001\n\u2028",
	"strings":["a",""],"struct":{"a":"s","b":0},"time":"2026-01-02T03:04:05Z","uint":18446744073709551615}`

// decodeStd decodes as encoding/json does, which has no inline.
func decodeStd(t *testing.T, raw string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), v); err != nil {
		t.Fatal(err)
	}
}

func TestDecode(t *testing.T) {
	var got, want everything
	if err := codec.New().Decode([]byte(full), &got); err != nil {
		t.Fatal(err)
	}
	decodeStd(t, full, &want)
	decodeStd(t, full, &want.Inline)
	want.Any = map[string]any{"k": []any{int64(1), "two", nil, true, 2.5}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestDecodeIsOfKubernetes(t *testing.T) {
	got := everything{String: "was", Labels: map[string]string{"a": "b"}}
	if err := codec.New().Decode([]byte(`{"STRING":"no","Labels":{},"labels":null,"string":null,"unknown":{"a":["}"]}}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.String != "" || got.Labels != nil {
		t.Errorf("null is not absence, or names are matched loosely: %+v", got)
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name, raw, path, value, detail string
	}{
		{"a string for a number", `{"int64":"1"}`, "int64", `"1"`, "a string where an integer is expected"},
		{"a fraction for an integer", `{"int64":1.5}`, "int64", `1.5`, "not an integer of 64 bits"},
		{"too large", `{"int8":128}`, "int8", `128`, "does not fit in 8 bits"},
		{"too large for 64 bits", `{"int64":9223372036854775808}`, "int64", `9223372036854775808`, "not an integer of 64 bits"},
		{"negative", `{"uint":-1}`, "uint", `-1`, "not an unsigned integer of 64 bits"},
		{"in a list", `{"list":[{},{"b":true}]}`, "list[1].b", `true`, "a boolean where an integer is expected"},
		{"in a map", `{"map":{"x/y":{"a":[]}}}`, "map[x/y].a", `[]`, "an array where a string is expected"},
		{"a label", `{"labels":{"x":1}}`, "labels[x]", `1`, "a number where a string is expected"},
		{"an object for a list", `{"strings":{}}`, "strings", `{}`, "an object where an array is expected"},
		{"base64", `{"bytes":"?"}`, "bytes", `"?"`, "illegal base64 data at input byte 0"},
		{"a time", `{"time":"now"}`, "time", `"now"`, ""},
		{"too many elements", `{"array":[1,2,3]}`, "array", ``, "more than 2 elements"},
		{"the whole", `[]`, "", `[]`, "an array where an object is expected"},
		{"two values", `{} {}`, "", "", "more than one value"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var v everything
			err := codec.New().Decode([]byte(tc.raw), &v)
			var e *codec.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Path != tc.path || string(e.Value) != tc.value || tc.detail != "" && e.Detail != tc.detail {
				t.Errorf("got %q %q %q", e.Path, e.Value, e.Detail)
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	var v struct {
		F func() `json:"f"`
	}
	if err := codec.New().Decode([]byte(`{"f":1}`), &v); err == nil || !strings.Contains(err.Error(), "func() is not supported") {
		t.Errorf("got %v", err)
	}
	if err := codec.New().Decode([]byte(`1`), v); err == nil {
		t.Error("decoded into a value")
	}
}

func TestDepth(t *testing.T) {
	type node struct {
		Next *node `json:"next,omitempty"`
		Any  any   `json:"any,omitempty"`
	}
	for name, raw := range map[string]string{
		"struct": strings.Repeat(`{"next":`, 1000) + "{}" + strings.Repeat("}", 1000),
		"any":    `{"any":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}",
	} {
		var v node
		if err := codec.New().Decode([]byte(raw), &v); err == nil || !strings.Contains(err.Error(), "nested too deep") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// What is not decoded may be of any depth.
	var v inner
	if err := codec.New().Decode([]byte(`{"x":`+strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)+`,"b":1}`), &v); err != nil || v.B != 1 {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestAppend(t *testing.T) {
	tests := []struct {
		name string
		v    any
		want string
	}{
		{"nothing", nil, `null`},
		{"a struct without what is empty", inner{}, `{"b":0}`},
		{"nil members are absent", struct {
			M map[string]int `json:"m"`
			S []int          `json:"s"`
			P *int           `json:"p"`
			A any            `json:"a"`
		}{}, `{}`},
		{"keys are sorted", map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`},
		{"nil elements are null", []*int{nil}, `[null]`},
		{"a string", "<a>\x00\xff\"\\\u2028", `"<a>\u0000` + "\ufffd" + `\"\\` + "\u2028" + `"`},
		{"floats", []float64{1, 1e21, 1e-7, 0.1}, `[1,1e+21,1e-07,0.1]`},
		{"bytes", []byte("ab"), `"YWI="`},
		{"a time", time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := codec.New().Append(nil, tc.v)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	if _, err := codec.New().Append(nil, math.NaN()); err == nil {
		t.Error("NaN was encoded")
	}
}

func TestRoundTrip(t *testing.T) {
	var v, again everything
	c := codec.New()
	if err := c.Decode([]byte(full), &v); err != nil {
		t.Fatal(err)
	}
	raw, err := c.Append(nil, &v)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(raw, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(v, again) {
		t.Errorf("got  %+v\nwant %+v", again, v)
	}
}

func TestLearn(t *testing.T) {
	type loop struct {
		Loops []loop          `json:"loops,omitempty"`
		Map   map[string]loop `json:"map,omitempty"`
	}
	c := codec.New()
	c.Learn(&everything{})
	c.Learn(nil)
	c.Learn(func() {})
	c.Learn(struct{ F func() }{})
	c.Learn(&loop{})
	var v everything
	if err := c.Decode([]byte(full), &v); err != nil {
		t.Fatal(err)
	}
}

// What encoding/json takes, Decode takes as the same, and neither Decode nor
// Diff panics whatever they are given.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(`{"list":[{"a":"\ud800\udc00"},{"b":-0}],"map":{"":null}}`))
	f.Add([]byte(`{"a":"\u00`))
	f.Add([]byte(`[[[`))
	c := codec.New()
	type plain struct {
		A string            `json:"a,omitempty"`
		B *int64            `json:"b,omitempty"`
		L []inner           `json:"list,omitempty"`
		M map[string]string `json:"labels,omitempty"`
		S []string          `json:"strings,omitempty"`
		F float64           `json:"float,omitempty"`
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got plain
		err := c.Decode(raw, &got)
		_, _ = c.Diff(raw, &got)
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return
		}
		for name := range object { // encoding/json would match it
			for _, known := range []string{"a", "b", "list", "labels", "strings", "float"} {
				if name != known && strings.EqualFold(name, known) {
					return
				}
			}
		}
		var want plain
		wantErr := json.Unmarshal(raw, &want)
		if strings.Contains(string(raw), "null") || strings.Contains(string(raw), `"A"`) || strings.Contains(string(raw), `"B"`) {
			return
		}
		if err == nil && wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if err != nil && wantErr == nil && !strings.Contains(err.Error(), "nested too deep") {
			t.Errorf("refused: %v", err)
		}
	})
}
