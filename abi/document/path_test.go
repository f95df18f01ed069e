package document

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func mustPath(tb testing.TB, text string) Path {
	tb.Helper()
	p, err := ParsePath(text)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestQuery(t *testing.T) {
	d := parse(t, `{
		"metadata": {"labels": {"app.kubernetes.io/name": "web", "it's": "quoted", "a\\b": "slash", "": "empty"}},
		"spec": {
			"containers": [
				{"name": "a", "image": "x:1", "ports": [{"p": 1}, {"p": 2}]},
				{"name": "b"},
				{"name": "c", "ports": [{"p": 3}], "image": null}
			],
			"matrix": [[1, 2], [3], []],
			"0": "zero"
		}
	}`)
	tests := []struct {
		path string
		want []string
		text string // when not spelled as path
	}{
		{path: `spec.containers[0].image`, want: []string{`"x:1"`}},
		{path: `spec.containers[2].image`, want: []string{`null`}},
		{path: `spec.containers[*].name`, want: []string{`"a"`, `"b"`, `"c"`}},
		{path: `spec.containers[*].image`, want: []string{`"x:1"`, `null`}},
		{path: `spec.containers[*].ports[*].p`, want: []string{`1`, `2`, `3`}},
		{path: `spec.containers[*].ports[0].p`, want: []string{`1`, `3`}},
		{path: `spec.matrix[*][*]`, want: []string{`1`, `2`, `3`}},
		{path: `spec.matrix[0][1]`, want: []string{`2`}},
		{path: `spec.matrix[*]`, want: []string{`[1,2]`, `[3]`, `[]`}},
		{path: `metadata.labels['app.kubernetes.io/name']`, want: []string{`"web"`}},
		{path: `metadata.labels["app.kubernetes.io/name"]`, want: []string{`"web"`}, text: `metadata.labels['app.kubernetes.io/name']`},
		{path: `metadata.labels.app\.kubernetes\.io/name`, want: []string{`"web"`}, text: `metadata.labels['app.kubernetes.io/name']`},
		{path: `metadata.labels['it\'s']`, want: []string{`"quoted"`}},
		{path: `metadata.labels["it's"]`, want: []string{`"quoted"`}, text: `metadata.labels['it\'s']`},
		{path: `metadata.labels['a\\b']`, want: []string{`"slash"`}},
		{path: `metadata.labels['']`, want: []string{`"empty"`}},
		{path: `metadata.labels[*]`, want: []string{`"empty"`, `"slash"`, `"web"`, `"quoted"`}},
		{path: `.spec.matrix[1]`, want: []string{`[3]`}, text: `spec.matrix[1]`},
		{path: `['spec']['matrix'][1]`, want: []string{`[3]`}, text: `spec.matrix[1]`},
		{path: `spec.0`, want: []string{`"zero"`}},
		{path: `spec.containers[3].name`},
		{path: `spec.containers.name`},
		{path: `spec.nothing[*].name`},
		{path: `spec[0]`},
		{path: `spec.containers[0].name[*]`},
		{path: `metadata.labels.name.first`},
	}
	for _, tc := range tests {
		t.Run(tc.path, func(t *testing.T) {
			p := mustPath(t, tc.path)
			var got []string
			for v := range d.Root().Query(p) {
				got = append(got, string(v.Raw()))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			first := ""
			if len(tc.want) > 0 {
				first = tc.want[0]
			}
			if got := string(d.Root().QueryFirst(p).Raw()); got != first {
				t.Errorf("first is %q, want %q", got, first)
			}
			if tc.text == "" {
				tc.text = tc.path
			}
			if got := p.String(); got != tc.text {
				t.Errorf("spelled %s, want %s", got, tc.text)
			}
		})
	}
	root := mustPath(t, "")
	if !d.Root().QueryFirst(root).Equal(d.Root()) || root.String() != "" {
		t.Error("the empty path is not the document's")
	}
	if got := string(d.Get("spec", "matrix").QueryFirst(mustPath(t, "[0][0]")).Raw()); got != "1" {
		t.Errorf("got %s", got)
	}
}

func TestParsePathErrors(t *testing.T) {
	tests := []struct {
		path   string
		offset int
		msg    string
	}{
		{`.`, 1, "want a name"},
		{`a.`, 2, "want a name"},
		{`a..b`, 2, "want a name"},
		{`a.[0]`, 2, "want a name"},
		{`a b`, 1, "unexpected ' ' in a name, which may be quoted: ['…']"},
		{`a.*`, 2, "unexpected '*' in a name, which may be quoted: ['…']"},
		{`a]`, 1, "unexpected ']' in a name, which may be quoted: ['…']"},
		{`a\`, 1, `a character has to follow '\'`},
		{`a[`, 2, "'[' is not closed"},
		{`a[0`, 1, "'[' is not closed"},
		{`a[*`, 1, "'[' is not closed"},
		{`a['b'`, 1, "'[' is not closed"},
		{`a['b`, 2, "quote is not closed"},
		{`a['b"]`, 2, "quote is not closed"},
		{`a['b\n']`, 4, `want ', " or \ behind '\'`},
		{`a[]`, 2, "want an index, '*' or a quoted name, have ']'"},
		{`a[-1]`, 2, "want an index, '*' or a quoted name, have '-'"},
		{`a[b]`, 2, "want an index, '*' or a quoted name, have 'b'"},
		{`a[01]`, 2, `invalid index "01"`},
		{`a[99999999999]`, 2, `invalid index "99999999999"`},
		{`a[1x]`, 3, "want ']', have 'x'"},
		{`a[0]b`, 4, "want '.' or '[', have 'b'"},
	}
	for _, tc := range tests {
		t.Run(tc.path, func(t *testing.T) {
			_, err := ParsePath(tc.path)
			var e *PathError
			if !errors.As(err, &e) {
				t.Fatalf("error is %v", err)
			}
			if e.Offset != tc.offset || e.Msg != tc.msg {
				t.Errorf("got  %d %s\nwant %d %s", e.Offset, e.Msg, tc.offset, tc.msg)
			}
		})
	}
	_, err := ParsePath("a[0")
	if got, want := err.Error(), `path "a[0": offset 1: '[' is not closed`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := ParsePath(strings.Repeat("[", 1000)); err == nil || len(err.Error()) > 300 {
		t.Errorf("error is %v", err)
	}
}
