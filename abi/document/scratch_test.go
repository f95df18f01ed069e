package document

import (
	"errors"
	"strings"
	"testing"
)

func TestScratch(t *testing.T) {
	var s Scratch
	long := `["` + strings.Repeat(`x","`, maxScratch) + `x"]`
	tests := []struct {
		name, raw, path, want string
		err                   error
	}{
		{name: "an object", raw: `{"a":"one","b":2}`, path: "a", want: "one"},
		{name: "a shorter one", raw: `{"a":"two"}`, path: "a", want: "two"},
		{name: "not canonical", raw: `{ "a":"two"}`, path: "a", err: errNotCanonical},
		{name: "after one that failed", raw: `{"b":"three","c":{"d":"e"}}`, path: "b", want: "three"},
		{name: "a long one", raw: long},
		{name: "after a long one", raw: `{"a":"four"}`, path: "a", want: "four"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := s.FromCanonical([]byte(tc.raw))
			if err := d.Err(); !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if got := d.Get(tc.path).String(); got != tc.want {
				t.Errorf("%s is %q, want %q", tc.path, got, tc.want)
			}
			if tc.err == nil && !d.Equal(FromCanonical([]byte(tc.raw))) {
				t.Error("it differs from a Document of its own")
			}
			if cap(s.tape) > maxScratch {
				t.Errorf("it keeps %d nodes", cap(s.tape))
			}
		})
	}
	if d := s.FromCanonical([]byte(`{`)); d.Err() == nil || d.Root().Exists() {
		t.Error("broken text made a document")
	}
}

func TestScratchAllocations(t *testing.T) {
	var s Scratch
	raw := []byte(`{"metadata":{"labels":{"app":"web"},"name":"n"}}`)
	if n := testing.AllocsPerRun(100, func() {
		if s.FromCanonical(raw).Get("metadata", "labels", "app").String() != "web" {
			t.Fatal("not read")
		}
	}); n != 0 {
		t.Errorf("%v allocations a document, want 0", n)
	}
}
