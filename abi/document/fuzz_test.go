package document

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	sigsjson "sigs.k8s.io/json"
)

// checkMap compares what d holds with what sigs.k8s.io/json makes of raw.
func checkMap(tb testing.TB, d *Document, raw []byte) {
	tb.Helper()
	var want any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &want); err != nil {
		tb.Fatal(err)
	}
	if got := d.Root().Interface(); !reflect.DeepEqual(got, want) {
		tb.Fatalf("got  %#v\nwant %#v", got, want)
	}
}

// FuzzIngest compares Ingest with sigs.k8s.io/json.
func FuzzIngest(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `{}`, `[]`, `null`, `true`, `-1.5e+3`, `"x"`, `{"a":1,"b":[true,{"c":"\u00e9"}]}`,
		`{"b":1,"a":2,"a":3}`, `{"a":{"x":1,"x":2},"a":{"x":1}}`, `[[{"a":1,"a":1}]]`, `{"a":9007199254740993}`,
		`[1.0,1e400,9223372036854775808,-0,0e999999999]`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", "\"\u2028\"", `"\/\b\f\n\r\t\"\\"`,
		`[1,]`, `{"a":1,}`, `{"a":1}{`, "\xef\xbb\xbf{}", `[NaN]`, `{"\u0061":1,"a":2}`, `{"#":1,"\"":2}`, "{\"abcdefgh\\n\":1,\t\"abcdefgh\":2}",
		strings.Repeat("[", 50) + strings.Repeat("]", 50), strings.Repeat("9", 320),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want any
		strict, upstream := sigsjson.UnmarshalStrict(raw, &want, sigsjson.DisallowDuplicateFields)
		d, duplicates, err := Ingest(raw, IngestOptions{})
		if err != nil {
			isSyntax, offset := sigsjson.SyntaxErrorOffset(upstream)
			syntax := err.(*SyntaxError)
			stricter := strings.Contains(syntax.Msg, "UTF-8") || strings.Contains(syntax.Msg, "surrogate")
			beyondFloat := strings.Contains(syntax.Msg, "out of range")
			switch {
			case stricter, beyondFloat && upstream != nil:
			case !isSyntax:
				t.Fatalf("error is %v, upstream's %v", err, upstream)
			case !sameSyntaxError(syntax, upstream, offset):
				t.Fatalf("error is %v, upstream's %v at %d", err, upstream, offset)
			}
			return
		}
		if upstream != nil {
			t.Fatalf("no error, upstream's is %v", upstream)
		}
		if !utf8.Valid(raw) {
			t.Fatal("invalid UTF-8 accepted")
		}
		checkTape(t, d)
		if got := d.Root().Interface(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %#v\nwant %#v", got, want)
		}
		checkMap(t, d, d.Bytes())
		var paths []string
		for _, err := range strict {
			paths = append(paths, err.(sigsjson.FieldError).FieldPath())
		}
		if got := duplicatePaths(duplicates); !slices.Equal(got, paths) {
			t.Fatalf("duplicates %q, upstream %q", got, paths)
		}
		again, err := FromValue(want)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(integral(again.Root().Interface()), integral(want)) {
			t.Fatalf("value %#v became %s", want, again.Bytes())
		}
		checkTape(t, again)
	})
}

// integral returns v with the floats that FromValue spells as integers as those.
func integral(v any) any {
	switch v := v.(type) {
	case float64:
		if i := int64(v); float64(i) == v && v > -1e18 && v < 1e18 {
			return i
		}
	case []any:
		for i := range v {
			v[i] = integral(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = integral(v[name])
		}
	}
	return v
}

// FuzzParsePath checks that a path is spelled so that it is read again.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{
		``, `a`, `a.b`, `.a.b`, `a[0]`, `a[*].b`, `a['b.c']`, `a["b'c"]`, `a\.b`, `['']`, `[0][1]`, `a.`, `a[`, `a['`, `a..b`, `a['\'']`, "a['\xff']",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePath(text)
		if err != nil {
			if e := err.(*PathError); e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("offset %d of %q", e.Offset, text)
			}
			return
		}
		again, err := ParsePath(p.String())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p, again) {
			t.Fatalf("%q is spelled %q", text, p)
		}
	})
}

// FuzzMergePatch checks that the result of a merge patch is canonical and stays what
// it is under the same patch.
func FuzzMergePatch(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":"b"}`, `{"a":"c"}`}, {`{"a":{"b":1}}`, `{"a":{"b":null,"c":{"d":null}}}`}, {`[1]`, `{"a":{"b":null}}`}, {`{}`, `[null]`},
		{`{"a":1,"b":2,"\"":3}`, `{"#":1,"\"":null}`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, rawTarget, rawPatch []byte) {
		target, err := Parse(rawTarget)
		if err != nil {
			return
		}
		patch, err := Parse(rawPatch)
		if err != nil {
			return
		}
		merged, err := target.ApplyMergePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		checkTape(t, merged)
		if want := mergePatch(target.Root().Interface(), patch.Root().Interface()); !reflect.DeepEqual(merged.Root().Interface(), want) {
			t.Fatalf("got %s, want %v", merged.Bytes(), want)
		}
		again, err := merged.ApplyMergePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		if again != merged {
			t.Fatalf("%s became %s", merged.Bytes(), again.Bytes())
		}
	})
}

// mergePatch is the function of RFC 7386, section 2.
func mergePatch(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result, ok := target.(map[string]any)
	if !ok {
		result = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(result, name)
		} else {
			result[name] = mergePatch(result[name], value)
		}
	}
	return result
}
