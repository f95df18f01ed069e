package endpoints

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

// bomb is an alias bomb of so many levels of nine.
func bomb(levels int, leaf string) string {
	text := "l0: &l0 " + leaf + "\n"
	for i := 1; i <= levels; i++ {
		name, below := "l"+itoa(i), "*l"+itoa(i-1)
		text += name + ": &" + name + " [" + strings.Repeat(below+",", 9) + "]\n"
	}
	return text
}

func TestYAMLBombs(t *testing.T) {
	tests := []struct{ name, body string }{
		{"many nodes", bomb(20, "[x]")},
		{"a long leaf", bomb(4, `"`+strings.Repeat("x", 1<<20)+`"`)},
		{"deep", strings.Repeat("[", 20_000)},
		{"deep map", strings.Repeat("{a: ", 20_000)},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			out, _, err := yamlToJSON([]byte(tc.body), 3<<20)
			if err == nil {
				t.Errorf("no error, %d bytes", len(out))
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// yamlSeeds are texts on which upstream's converter and ours agree.
func yamlSeeds() []string {
	return []string{
		"a: 1\nb: [x, 2.5, true, null, ~, yes, 0x10, 010, 1e3, 2001-01-01]\n",
		"1: a\ntrue: b\n2.5: c\n",
		"a: &x {b: c}\nd: *x\n<<: *x\n",
		"text: |\n  many\n  lines\nfolded: >\n  a\n  b\n",
		"big: 9007199254740993\nhuge: 18446744073709551615\n",
		"{\"a\": [1, {\"b\": null}]}",
		"<tag>: a & b\n",
		"# nothing\n",
		"- a\n- b: c\n",
		"a: !!binary aGk=\n",
	}
}

func sameAsUpstream(t *testing.T, text string) {
	t.Helper()
	want, wantErr := yaml.YAMLToJSON([]byte(text))
	got, _, err := yamlToJSON([]byte(text), 3<<20)
	if wantErr != nil || err != nil {
		if wantErr == nil && !strings.Contains(err.Error(), "too large") && !strings.Contains(err.Error(), "several keys") {
			t.Errorf("%q: error %v, upstream has none", text, err)
		}
		return
	}
	wantDoc, wantErr := document.Parse(want)
	gotDoc, err := document.Parse(got)
	if wantErr != nil || err != nil {
		if (wantErr == nil) != (err == nil) {
			t.Errorf("%q: %v, upstream %v", text, err, wantErr)
		}
		return
	}
	if !gotDoc.Equal(wantDoc) {
		t.Errorf("%q: %s, upstream %s", text, gotDoc.Bytes(), wantDoc.Bytes())
	}
}

func TestYAMLToJSON(t *testing.T) {
	for _, text := range yamlSeeds() {
		sameAsUpstream(t, text)
	}
}

func FuzzYAMLToJSON(f *testing.F) {
	for _, text := range yamlSeeds() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		sameAsUpstream(t, text)
	})
}
