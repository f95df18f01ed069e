package encryption

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWayTo(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"f": "..data/f", "..data": "..1", "out": "../" + filepath.Base(dir) + "/f", "abs": filepath.Join(dir, "f"), "loop": "loop2", "loop2": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "..1"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		want []string
	}{
		{"f", []string{"f", "..data", "..1/f"}}, // which is not there
		{"out", []string{"out", "f", "..data", "..1/f"}},
		{"abs", []string{"abs", "f", "..data", "..1/f"}},
		{"none", []string{"none"}},
	}
	for _, tc := range tests {
		var want []string
		for _, name := range tc.want {
			want = append(want, filepath.Join(dir, name))
		}
		if got := wayTo(filepath.Join(dir, tc.name)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, want)
		}
	}
	if got := wayTo(filepath.Join(dir, "loop")); len(got) != longestWay {
		t.Errorf("a loop is followed %d times", len(got))
	}
}

func TestRedact(t *testing.T) {
	tests := []struct{ in, want string }{
		{`unknown field "resources[0].providers"`, `unknown field "resources[0].providers"`},
		{`no kind "EncryptionConfiguration" is registered`, `no kind "EncryptionConfiguration" is registered`},
		{`field "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dg==" is`, `field "REDACTED" is`},
	}
	for _, tc := range tests {
		if got := redact(tc.in); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestFamily(t *testing.T) {
	for in, want := range map[string]string{
		"k8s:enc:aesgcm:v1:key1:\x00:\x01": "k8s:enc:aesgcm:v1:key1:", "k8s:enc:": "k8s:enc:", "k8s:enc:x": "k8s:enc:",
	} {
		if got := string(family([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
