package offline

import (
	"strings"
	"testing"

	"weir.dev/weir/abi/document"
)

// TestPlaces: each text has a mark, and where it stands in the text is where it is found in the file.
func TestPlaces(t *testing.T) {
	tests := []struct {
		name, yaml, text string
	}{
		{"plain", "a:\n  b: x && @ > 0\n", "x && @ > 0"},
		{"flow", "a: {c: 1, b: x && @}\n", "x && @"},
		{"quoted", `a: {b: "x && @"}`, "x && @"},
		{"escapes", `a: {b: "\"é\" + \"\\d\" && @"}`, `"é" + "\d" && @`},
		{"single quotes", "a: {b: 'it''s @'}", "it's @"},
		{"literal", "a:\n  b: |\n    first\n      second @\n", "first\n  second @\n"},
		{"folded", "a:\n  b: >-\n    first one\n    then @ too\n", "first one then @ too"},
		{"plain over lines", "a:\n  b: first one\n    then @ too\n", "first one then @ too"},
		{"after a blank line", "a:\n  b: |\n    first\n\n    @\n", "first\n\n@\n"},
		{"beyond ASCII", "a: {ü: ä, b: ö @}", "ö @"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := &Object{Line: 11, Text: []byte(tc.yaml)}
			before, _, _ := strings.Cut(tc.text, "@")
			line := strings.Count(before, "\n") + 1
			column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
			got := newPlaces(o).within("a.b", line, column)
			inFile, _, _ := strings.Cut(tc.yaml, "@")
			want := Position{strings.Count(inFile, "\n") + 11, len([]rune(inFile[strings.LastIndex(inFile, "\n")+1:])) + 1}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestPlacesOfFields(t *testing.T) {
	o := &Object{Line: 1, Text: []byte("spec:\n  list:\n  - name: a\n  - name: b\n    labels: {x.y/z: 1}\n")}
	tests := []struct {
		path string
		want Position
	}{
		{"spec.list[1].name", Position{4, 5}},
		{"spec.list[1].labels[x.y/z]", Position{5, 14}},
		{"spec.list[0].missing.more", Position{3, 5}},
		{"missing", Position{1, 1}},
		{"", Position{1, 1}},
	}
	for _, tc := range tests {
		if got := newPlaces(o).at(tc.path); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.path, got, tc.want)
		}
	}
	if got := newPlaces(&Object{}).within("a.b", 1, 1); got != (Position{}) {
		t.Errorf("without a text: %v", got)
	}
}

// FuzzPlaces: no text and no position breaks the search.
func FuzzPlaces(f *testing.F) {
	f.Add("a: {b: c}", "a.b", 1, 1)
	f.Add("a:\n  b: >-\n    x\n\n    y", "a.b", 2, 9)
	f.Fuzz(func(_ *testing.T, text, path string, line, column int) {
		p := newPlaces(&Object{Line: 1, Text: []byte(text)})
		p.excerpt(p.within(path, line, column))
		p.excerpt(p.at(path))
	})
}

func TestRead(t *testing.T) {
	parts := split([]byte("a: 1\n--- # two\nb: 2\n---\n"))
	if len(parts) != 3 || parts[1].line != 3 || string(parts[1].text) != "b: 2\n" {
		t.Errorf("got %+v", parts)
	}
	obj, err := document.Parse([]byte(`{"kind":"Pod","metadata":{"name":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := (&Object{Root: "r", File: "d/f.yaml", Document: obj}).String(); got != `r/d/f.yaml: Pod "a"` {
		t.Errorf("got %s", got)
	}
}
