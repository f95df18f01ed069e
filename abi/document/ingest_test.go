package document

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	sigsjson "sigs.k8s.io/json"
)

func TestIngest(t *testing.T) {
	tests := []struct {
		name string
		raw  string
		want string
	}{
		{"empty object", `{}`, `{}`},
		{"empty array", `[]`, `[]`},
		{"empty string", `""`, `""`},
		{"scalars", `[null,true,false,0,-0,1.5e-7,"x"]`, `[null,true,false,0,-0,1.5e-7,"x"]`},
		{"white space", " \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } , \"c\":[ ]\n} \n", `{"a":[1,2],"b":{},"c":[]}`},
		{"white space behind a canonical text", "{\"a\":1}\n", `{"a":1}`},
		{"white space before a canonical text", "\n{\"a\":1}", `{"a":1}`},
		{"members out of order", `{"b":{"d":1,"c":[{"z":0,"y":0}]},"a":2}`, `{"a":2,"b":{"c":[{"y":0,"z":0}],"d":1}}`},
		{"names in byte order, not letters'", `{"a":1,"B":2,"":3,"é":4,"aa":5}`, `{"":3,"B":2,"a":1,"aa":5,"é":4}`},
		{"names by their decoded text", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{"a quote sorts before #, its escape behind", `{"#":1,"\"":2}`, `{"\"":2,"#":1}`},
		{"names differ in case", `{"Spec":1,"spec":2}`, `{"Spec":1,"spec":2}`},
		{"an escape that sorts as it is", `{"\t":1,"a":2}`, `{"\t":1,"a":2}`},
		{"many members", manyMembers(40, true), manyMembers(40, false)},
		{"numbers keep their spelling", `[1.0,1.00,1e2,1E+2,10000000000000000000000,9223372036854775807,0.1e-400]`, `[1.0,1.00,1e2,1E+2,10000000000000000000000,9223372036854775807,0.1e-400]`},
		{"shortest escapes", `"\u003c\u003e\u0026\u2028\u0041\/\u00e9"`, "\"<>&\u2028A/é\""},
		{"short escapes", `"\u0008\u000c\u000a\u000d\u0009\u0022\u005c"`, `"\b\f\n\r\t\"\\"`},
		{"control characters", `"\u0000\u001F\u001f\u000B"`, `"\u0000\u001f\u001f\u000b"`},
		{"U+2028, U+2029 and DEL raw", "\"\u2028\u2029\x7f\"", "\"\u2028\u2029\x7f\""},
		{"surrogate pair", `"\ud83d\ude00\uD83D\uDE00"`, `"😀😀"`},
		{"replacement character", `"\ufffd"`, "\"\uFFFD\""},
		{"escape at each offset of a word", `["\\","a\\","ab\\","abc\\","abcd\\","abcde\\","abcdef\\","abcdefg\\"]`, `["\\","a\\","ab\\","abc\\","abcd\\","abcde\\","abcdef\\","abcdefg\\"]`},
		{"last duplicate", `{"a":1,"b":2,"a":3}`, `{"a":3,"b":2}`},
		{"adjacent duplicate", `{"a":1,"a":3}`, `{"a":3}`},
		{"duplicate by escape", `{"a":1,"\u0061":3}`, `{"a":3}`},
		{"duplicate object is replaced, not merged", `{"a":{"x":1},"a":{"y":2}}`, `{"a":{"y":2}}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			raw := []byte(tc.raw)
			d, _, err := Ingest(raw, IngestOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Bytes()); got != tc.want {
				t.Fatalf("got  %s\nwant %s", got, tc.want)
			}
			for i := range raw {
				raw[i] = 'x'
			}
			if got := string(d.Bytes()); got != tc.want {
				t.Errorf("the document changed with the text it was made of: %s", got)
			}
			checkTape(t, d)
		})
	}
}

// checkTape compares the tape of d with one that is built of its bytes.
func checkTape(tb testing.TB, d *Document) {
	tb.Helper()
	again := FromCanonical(d.Bytes())
	if err := again.Err(); err != nil {
		tb.Fatalf("bytes are not canonical: %v: %s", err, abbreviate(d.Bytes()))
	}
	if !d.Root().Exists() || !slices.Equal(d.tape, again.tape) {
		tb.Fatalf("tape %v\nwant %v\nof   %s", d.tape, again.tape, abbreviate(d.Bytes()))
	}
}

func manyMembers(n int, reversed bool) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"name%03d":{"a":%d}`, i, i)
	}
	if reversed {
		slices.Reverse(members)
	}
	return "{" + strings.Join(members, ",") + "}"
}

func TestIngestErrors(t *testing.T) {
	tests := []struct {
		name, raw string
		offset    int64
		msg       string
		lenient   bool // encoding/json accepts it
	}{
		{name: "nothing", raw: ``, offset: 0, msg: "unexpected end of JSON input"},
		{name: "white space only", raw: "  ", offset: 2, msg: "unexpected end of JSON input"},
		{name: "open object", raw: `{"a":1`, offset: 6, msg: "unexpected end of JSON input"},
		{name: "open array", raw: `[1,`, offset: 3, msg: "unexpected end of JSON input"},
		{name: "open string", raw: `"abc`, offset: 4, msg: "unexpected end of JSON input"},
		{name: "open escape", raw: `"\`, offset: 2, msg: "unexpected end of JSON input"},
		{name: "open hexadecimal escape", raw: `"\u00`, offset: 5, msg: "unexpected end of JSON input"},
		{name: "open literal", raw: `tru`, offset: 3, msg: "unexpected end of JSON input"},
		{name: "open number", raw: `-`, offset: 1, msg: "unexpected end of JSON input"},
		{name: "trailing comma in object", raw: `{"a":1,}`, offset: 8, msg: "invalid character '}' looking for beginning of object key string"},
		{name: "trailing comma in array", raw: `[1,]`, offset: 4, msg: "invalid character ']' looking for beginning of value"},
		{name: "leading comma", raw: `[,1]`, offset: 2, msg: "invalid character ',' looking for beginning of value"},
		{name: "no comma in array", raw: `[1 2]`, offset: 4, msg: "invalid character '2' after array element"},
		{name: "no comma in object", raw: `{"a":1 "b":2}`, offset: 8, msg: "invalid character '\"' after object key:value pair"},
		{name: "no colon", raw: `{"a" 1}`, offset: 6, msg: "invalid character '1' after object key"},
		{name: "wrong bracket", raw: `{"a":[1}`, offset: 8, msg: "invalid character '}' after array element"},
		{name: "name without quotes", raw: `{a:1}`, offset: 2, msg: "invalid character 'a' looking for beginning of object key string"},
		{name: "number as a name", raw: `{1:1}`, offset: 2, msg: "invalid character '1' looking for beginning of object key string"},
		{name: "single quotes", raw: `{'a':1}`, offset: 2, msg: `invalid character '\'' looking for beginning of object key string`},
		{name: "trailing value", raw: `{} {}`, offset: 4, msg: "invalid character '{' after top-level value"},
		{name: "trailing bracket", raw: `{"a":1}}`, offset: 8, msg: "invalid character '}' after top-level value"},
		{name: "trailing NUL", raw: "{}\x00", offset: 3, msg: `invalid character '\x00' after top-level value`},
		{name: "hexadecimal escape of a low surrogate", raw: `"\ud83d\ude0g"`, offset: 13, msg: `invalid character 'g' in \u hexadecimal character escape`},
		{name: "byte order mark", raw: "\xef\xbb\xbf{}", offset: 1, msg: "invalid character 'ï' looking for beginning of value"},
		{name: "NaN", raw: `[NaN]`, offset: 2, msg: "invalid character 'N' looking for beginning of value"},
		{name: "Infinity", raw: `-Infinity`, offset: 2, msg: "invalid character 'I' in numeric literal"},
		{name: "misspelled null", raw: `[nul]`, offset: 5, msg: "invalid character ']' in literal null (expecting 'l')"},
		{name: "misspelled true", raw: `[trUe]`, offset: 4, msg: "invalid character 'U' in literal true (expecting 'u')"},
		{name: "misspelled false", raw: `falze`, offset: 4, msg: "invalid character 'z' in literal false (expecting 's')"},
		{name: "long literal", raw: `truee`, offset: 5, msg: "invalid character 'e' after top-level value"},
		{name: "leading zero", raw: `[01]`, offset: 3, msg: "invalid character '1' after array element"},
		{name: "plus", raw: `[+1]`, offset: 2, msg: "invalid character '+' looking for beginning of value"},
		{name: "no digit behind the point", raw: `[1.]`, offset: 4, msg: "invalid character ']' after decimal point in numeric literal"},
		{name: "no digit before the point", raw: `[.1]`, offset: 2, msg: "invalid character '.' looking for beginning of value"},
		{name: "no digit in the exponent", raw: `[1e+]`, offset: 5, msg: "invalid character ']' in exponent of numeric literal"},
		{name: "hexadecimal number", raw: `0x10`, offset: 2, msg: "invalid character 'x' after top-level value"},
		{name: "line feed in a string", raw: "\"a\nb\"", offset: 3, msg: `invalid character '\n' in string literal`},
		{name: "NUL in a string", raw: "\"abcdefghi\x00\"", offset: 11, msg: `invalid character '\x00' in string literal`},
		{name: "unknown escape", raw: `"\x41"`, offset: 3, msg: "invalid character 'x' in string escape code"},
		{name: "hexadecimal escape", raw: `"\u00g0"`, offset: 6, msg: `invalid character 'g' in \u hexadecimal character escape`},
		{name: "comment", raw: "{} // x", offset: 4, msg: "invalid character '/' after top-level value"},
		{name: "vertical tab", raw: "\v{}", offset: 1, msg: `invalid character '\v' looking for beginning of value`},
		{name: "invalid UTF-8", raw: "\"abc\xff\"", offset: 5, msg: "invalid UTF-8 in string literal", lenient: true},
		{name: "invalid UTF-8 in a long string", raw: "\"0123456789é\xc3\"", offset: 14, msg: "invalid UTF-8 in string literal", lenient: true},
		{name: "surrogate in UTF-8", raw: "\"\xed\xa0\x80\"", offset: 2, msg: "invalid UTF-8 in string literal", lenient: true},
		{name: "overlong UTF-8", raw: "{\"\xc0\xaf\":1}", offset: 3, msg: "invalid UTF-8 in string literal", lenient: true},
		{name: "lone high surrogate", raw: `"\ud83d"`, offset: 7, msg: `lone surrogate \ud83d in string literal`, lenient: true},
		{name: "lone low surrogate", raw: `"\ude00"`, offset: 7, msg: `lone surrogate \ude00 in string literal`, lenient: true},
		{name: "two high surrogates", raw: `"\ud83d\ud83d"`, offset: 7, msg: `lone surrogate \ud83d in string literal`, lenient: true},
		{name: "number beyond a float", raw: `[1e400]`, offset: 6, msg: "number 1e400 is out of range of a 64-bit float"},
		{name: "long number beyond a float", raw: strings.Repeat("9", 400), offset: 400, msg: "number " + strings.Repeat("9", 40) + "… is out of range of a 64-bit float"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := Ingest([]byte(tc.raw), IngestOptions{})
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error is %v", err)
			}
			if syntax.Offset != tc.offset || syntax.Msg != tc.msg {
				t.Errorf("got  %d %s\nwant %d %s", syntax.Offset, syntax.Msg, tc.offset, tc.msg)
			}
			var v any
			upstream := sigsjson.UnmarshalCaseSensitivePreserveInts([]byte(tc.raw), &v)
			if (upstream == nil) != tc.lenient {
				t.Fatalf("sigs.k8s.io/json: %v", upstream)
			}
			if ok, offset := sigsjson.SyntaxErrorOffset(upstream); ok && !sameSyntaxError(syntax, upstream, offset) {
				t.Errorf("sigs.k8s.io/json: %d %v", offset, upstream)
			}
			if FromCanonical([]byte(tc.raw)).Err() == nil {
				t.Error("FromCanonical accepts it")
			}
		})
	}
}

// sameSyntaxError reports whether upstream says what e says. Where the text ends within
// a token, upstream reports a space that is not there.
func sameSyntaxError(e *SyntaxError, upstream error, offset int64) bool {
	if e.Msg == "unexpected end of JSON input" && strings.HasPrefix(upstream.Error(), "invalid character ' ' ") {
		return offset == e.Offset
	}
	return offset == e.Offset && upstream.Error() == e.Msg
}

func TestIngestBounds(t *testing.T) {
	nest := func(n int) []byte {
		return []byte(strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	objects := func(n int) []byte {
		return []byte(strings.Repeat(`{"b":`, n) + "1" + strings.Repeat(`,"a":1}`, n))
	}
	tests := []struct {
		name string
		raw  []byte
		opts IngestOptions
		want string // what the error holds; empty: none
	}{
		{"10000 arrays", nest(10000), IngestOptions{}, ""},
		{"10001 arrays", nest(10001), IngestOptions{}, "exceeded max depth (offset 10001)"},
		{"10000 objects out of order", objects(10000), IngestOptions{}, ""},
		{"10001 objects", objects(10001), IngestOptions{}, "exceeded max depth"},
		{"depth as allowed", nest(3), IngestOptions{MaxDepth: 3}, ""},
		{"deeper than allowed", nest(4), IngestOptions{MaxDepth: 3}, "exceeded max depth (offset 4)"},
		{"no more than MaxDepth", nest(10001), IngestOptions{MaxDepth: 20000}, "exceeded max depth"},
		{"bytes as allowed", nest(3), IngestOptions{MaxBytes: 6}, ""},
		{"more bytes than allowed", nest(3), IngestOptions{MaxBytes: 5}, "document too large: 6 bytes, the limit is 5"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d, _, err := Ingest(tc.raw, tc.opts)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error is %v, want %q", err, tc.want)
				}
				if errors.Is(err, ErrTooLarge) != (tc.opts.MaxBytes > 0) {
					t.Errorf("error is of the wrong kind: %#v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkTape(t, d)
			if d.Root().Interface() == nil {
				t.Error("no value")
			}
		})
	}
}

// A text of nothing but brackets must be refused early, in memory that does not grow
// with it.
func TestIngestDeepNestIsCheap(t *testing.T) {
	for _, raw := range [][]byte{
		[]byte(strings.Repeat("[", 3<<20)),
		[]byte(strings.Repeat(`{"":`, 3<<18)),
	} {
		start := time.Now()
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				if _, _, err := Ingest(raw, IngestOptions{}); err == nil {
					b.Fatal("no error")
				}
				if time.Since(start) > 100*time.Millisecond {
					break
				}
			}
		})
		if bytes := result.AllocedBytesPerOp(); bytes > 2<<20 {
			t.Errorf("%d bytes allocated", bytes)
		}
	}
}

func TestIngestDuplicates(t *testing.T) {
	tests := []struct {
		name, raw string
		want      []string
	}{
		{"none", `{"a":1,"b":{"a":1}}`, nil},
		{"top level", `{"a":1,"a":2}`, []string{"a"}},
		{"nested", `{"spec":{"replicas":1,"replicas":2}}`, []string{"spec.replicas"}},
		{"in a list", `{"spec":{"a":[{"b":1,"b":2},{"b":1},{"c":1,"c":2}]}}`, []string{"spec.a[0].b", "spec.a[2].c"}},
		{"in a list of lists", `[[{"a":1,"a":1}]]`, []string{"[0][0].a"}},
		{"three times", `{"a":1,"a":2,"a":3}`, []string{"a"}},
		{"in the order of the text", `{"z":1,"z":2,"b":1,"a":{"x":1,"x":1},"b":2}`, []string{"z", "a.x", "b"}},
		{"in a member that loses", `{"a":{"x":1,"x":2},"a":1}`, []string{"a.x", "a"}},
		{"the same path twice", `{"a":{"x":1,"x":2},"a":{"x":1,"x":2}}`, []string{"a.x", "a"}},
		{"names are not quoted", `{"a.b":{"c d":1,"c d":2}}`, []string{"a.b.c d"}},
		{"an empty name", `{"":{"":1,"":1}}`, []string{"."}},
		{"by their decoded text", `{"a":{"\u0062":1,"b":2}}`, []string{"a.b"}},
		{"differing in case", `{"a":1,"A":2}`, nil},
		{"at most 100", manyDuplicates(150), manyDuplicatePaths(100)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, duplicates, err := Ingest([]byte(tc.raw), IngestOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := duplicatePaths(duplicates)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if upstream := upstreamDuplicates(t, tc.raw); !slices.Equal(upstream, tc.want) {
				t.Errorf("sigs.k8s.io/json: %q", upstream)
			}
			_, err = Parse([]byte(tc.raw))
			var syntax *SyntaxError
			if len(tc.want) > 0 && (!errors.As(err, &syntax) || syntax.Msg != fmt.Sprintf("duplicate field %q", tc.want[0])) {
				t.Errorf("Parse: %v", err)
			}
			if len(tc.want) == 0 && err != nil {
				t.Errorf("Parse: %v", err)
			}
		})
	}
}

func duplicatePaths(duplicates []Duplicate) []string {
	var paths []string
	for _, d := range duplicates {
		paths = append(paths, d.Path)
	}
	return paths
}

func upstreamDuplicates(tb testing.TB, raw string) []string {
	tb.Helper()
	var v any
	strict, err := sigsjson.UnmarshalStrict([]byte(raw), &v, sigsjson.DisallowDuplicateFields)
	if err != nil {
		tb.Fatal(err)
	}
	var paths []string
	for _, err := range strict {
		paths = append(paths, err.(sigsjson.FieldError).FieldPath())
	}
	return paths
}

func manyDuplicates(n int) string {
	var b strings.Builder
	b.WriteString(`{"a":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"b":1,"b":2}`)
	}
	return b.String() + "]}"
}

func manyDuplicatePaths(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("a[%d].b", i)
	}
	return paths
}

// A deep text of nothing but duplicates must not cost its depth for each of them.
func TestIngestDeepDuplicatesAreCheap(t *testing.T) {
	depth := MaxDepth - 1
	raw := strings.Repeat(`{"aaaaaaaa":`, depth) + "[" + strings.Repeat(`{"x":1,"x":1},`, 100000) + "0]" + strings.Repeat("}", depth)
	_, _, err := Ingest([]byte(raw), IngestOptions{})
	if err == nil {
		t.Fatal("the text is too deep by one")
	}
	raw = raw[len(`{"aaaaaaaa":`) : len(raw)-1]
	_, duplicates, err := Ingest([]byte(raw), IngestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(duplicates) == 0 || len(duplicates) > maxDuplicates {
		t.Errorf("%d duplicates", len(duplicates))
	}
}

func TestFromCanonical(t *testing.T) {
	tests := []struct{ name, raw, err string }{
		{"canonical", `{"a":[1,"\n"],"b":{}}`, ""},
		{"white space", `{"a": 1}`, "document is not canonical JSON"},
		{"white space behind", `{"a":1} `, "document is not canonical JSON"},
		{"white space before", ` {"a":1}`, "document is not canonical JSON"},
		{"white space in an empty object", `{ }`, "document is not canonical JSON"},
		{"order", `{"b":1,"a":1}`, "document is not canonical JSON"},
		{"duplicate", `{"a":1,"a":1}`, "document is not canonical JSON"},
		{"order in a nested object", `[{"b":1,"a":1},1]`, "document is not canonical JSON"},
		{"order behind a nested object", `{"b":{"x":1},"a":1}`, "document is not canonical JSON"},
		{"escape", `["\u003c"]`, "document is not canonical JSON"},
		{"escape in a name", `{"\u003c":1}`, "document is not canonical JSON"},
		{"hexadecimal capitals", `["\u001F"]`, "document is not canonical JSON"},
		{"invalid", `{"a":}`, "invalid character '}' looking for beginning of value (offset 6)"},
		{"nothing", ``, "unexpected end of JSON input (offset 0)"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := FromCanonical([]byte(tc.raw))
			if string(d.Bytes()) != tc.raw {
				t.Errorf("bytes are %s", d.Bytes())
			}
			if d.Root().Exists() != (tc.err == "") {
				t.Errorf("root exists: %v", d.Root().Exists())
			}
			if err := d.Err(); fmt.Sprint(err) != tc.err && (err != nil || tc.err != "") {
				t.Errorf("error is %v", err)
			}
			if _, err := d.Edit().Set(1, "x").Document(); (err == nil) != (tc.err == "") {
				t.Errorf("edit: %v", err)
			}
			if _, err := d.MarshalJSON(); (err == nil) != (tc.err == "") {
				t.Errorf("marshal: %v", err)
			}
		})
	}
}

func TestNilDocument(t *testing.T) {
	var d *Document
	if d.Bytes() != nil || d.Root().Exists() || d.Get("a").Exists() || d.Err() == nil || !d.Equal(nil) {
		t.Error("a nil document holds something")
	}
	if d.Equal(FromCanonical([]byte(`{}`))) || FromCanonical([]byte(`{}`)).Equal(d) {
		t.Error("a nil document equals another")
	}
	if _, err := d.Map(); err == nil {
		t.Error("no error")
	}
	if _, err := d.Edit().Set(1, "a").Delete("a").Document(); err == nil {
		t.Error("no error")
	}
	if _, err := d.ApplyMergePatch(FromCanonical([]byte(`{}`))); err == nil {
		t.Error("no error")
	}
	if _, err := FromCanonical([]byte(`{}`)).ApplyMergePatch(d); err == nil {
		t.Error("no error")
	}
}

func TestDocumentEqual(t *testing.T) {
	a, err := Parse([]byte(`{"b":1,"a":[1.0]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !a.Equal(a) || !a.Equal(FromCanonical([]byte(`{"a":[1.0],"b":1}`))) {
		t.Error("want equal")
	}
	if a.Equal(FromCanonical([]byte(`{"a":[1],"b":1}`))) {
		t.Error("want numbers to differ by their spelling")
	}
}

func TestIndexAllocations(t *testing.T) {
	canonical, typed, indented := forms(t)
	tests := []struct {
		name string
		want float64
		run  func() bool
	}{
		// The Document, its tape.
		{"index", 2, func() bool { return FromCanonical(canonical).Root().Exists() }},
		// The Document, its tape, its bytes.
		{"ingest canonical", 3, func() bool { d, _, _ := Ingest(canonical, IngestOptions{}); return d != nil }},
		{"ingest out of order", 3, func() bool { d, _, _ := Ingest(typed, IngestOptions{}); return d != nil }},
		{"ingest indented", 3, func() bool { d, _, _ := Ingest(indented, IngestOptions{}); return d != nil }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				if !tc.run() {
					t.Fatal("no document")
				}
			})
			if got != tc.want {
				t.Errorf("%v allocations, want %v", got, tc.want)
			}
		})
	}
}

func TestMapMatchesUpstream(t *testing.T) {
	raw := `{"a":9007199254740993,"b":9223372036854775807,"c":9223372036854775808,"d":-9223372036854775808,` +
		`"e":1.0,"f":1e2,"g":-0,"h":0.1,"i":null,"j":[],"k":{},"l":[1,"x",true,false,null,{"m":[[]]}],"n":"\n\u00e9\ud83d\ude00"}`
	d, err := Parse([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	checkMap(t, d, []byte(raw))
	m, err := d.Map()
	if err != nil {
		t.Fatal(err)
	}
	if m["a"] != int64(9007199254740993) || m["b"] != int64(math.MaxInt64) || m["e"] != float64(1) || m["g"] != int64(0) {
		t.Errorf("got %v", m)
	}
	if got := string(d.Get("e").Raw()); got != "1.0" {
		t.Errorf("spelled %s", got)
	}
	m["k"].(map[string]any)["changed"] = true
	m["l"].([]any)[0] = "changed"
	checkMap(t, d, []byte(raw))
}
