package storage

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// wellFormedTexts are texts of which jsontext says whether they are well-formed.
var wellFormedTexts = []string{
	``, ` `, `{}`, `[]`, ` { } `, `[ ]`, "{\"a\":1}\n", `{"a":1,"a":2}`, `{"a":{"b":[1,"x",true,false,null,{}]},"c":[[],[{}]]}`,
	`{"a" : [ 1 , 2 ] , "b" : { } }`, "\t{\r\n}", "\v{}", `{`, `[`, `}`, `]`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{1:1}`, `{"a":1 "b":2}`,
	`[1,]`, `[,1]`, `[1 2]`, `{} {}`, `{}x`, `{"a":{bad}}`, `{"metadata":{"name":"a"}garbage}`, `{"a":1}}`, `[1]]`, `{"a":[1}`,
	`0`, `-0`, `01`, `-`, `-01`, `1.`, `1.5`, `.5`, `1e`, `1e+`, `1E-7`, `1e400`, `+1`, `1x`, `0x1`, `--1`, `true`, `tru`, `truex`, `nul`, `null`, `False`, `t`,
	`"`, `"a`, `"a\`, `"a\"`, `"\n\t\r\b\f\/\\\""`, `"\x"`, `"\u00e4"`, `"\u00E"`, `"\u00g0"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83d\u0041"`, `"\ud83dxx"`, `"\ud83d\ud83d"`,
	"\"\x00\"", "\"\n\"", "\"\x7f\"", "\"\xff\"", "\"ä\"", "{\"a\":\"\xc3\"}", "\xef\xbb\xbf{}",
	strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100), strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat(`}`, 70),
	strings.Repeat(`[`, maxDepth) + strings.Repeat(`]`, maxDepth), strings.Repeat(`[`, maxDepth+2) + strings.Repeat(`]`, maxDepth+2),
}

func isValid(text []byte) bool {
	return jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true))
}

func TestWellFormed(t *testing.T) {
	for _, text := range wellFormedTexts {
		if got, want := wellFormed([]byte(text)), isValid([]byte(text)); got != want {
			t.Errorf("%.60q: got %v, want %v", text, got, want)
		}
	}
}

func FuzzWellFormed(f *testing.F) {
	for _, text := range wellFormedTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := wellFormed(text), isValid(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	})
}

func BenchmarkWellFormed(b *testing.B) {
	text := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"x"},"name":"abc","namespace":"default"},"spec":{"containers":[` +
		strings.TrimSuffix(strings.Repeat(`{"env":[{"name":"A","value":"some value here"}],"image":"registry.example/nginx:1.2.3","name":"c"},`, 18), ",") + `]}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if !wellFormed(text) {
			b.Fatal("not well-formed")
		}
	}
}
