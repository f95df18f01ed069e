package document_test

import (
	"testing"

	"weir.dev/weir/abi/document"
)

func TestMask(t *testing.T) {
	const text = `{"a":{"b":1,"c":{"d":[1,{"e":2}],"f":null},"x.y/z":"q"},"g":"h","i":{},"j":[{"k":1}]}`
	tests := []struct {
		name   string
		fields []string
		want   string
	}{
		{"nothing", nil, `{}`},
		{"the whole", []string{""}, text},
		{"members", []string{"g", "a.b"}, `{"a":{"b":1},"g":"h"}`},
		{"an array is whole", []string{"a.c.d", "j"}, `{"a":{"c":{"d":[1,{"e":2}]}},"j":[{"k":1}]}`},
		{"a quoted name", []string{"a['x.y/z']"}, `{"a":{"x.y/z":"q"}}`},
		{"null is there", []string{"a.c.f"}, `{"a":{"c":{"f":null}}}`},
		{"an empty object is there", []string{"i"}, `{"i":{}}`},
		{"what is absent leaves no parents", []string{"a.c.none", "none.at.all", "i.b"}, `{}`},
		{"the wider wins", []string{"a.c.d", "a.c", "a.c.f"}, `{"a":{"c":{"d":[1,{"e":2}],"f":null}}}`},
		{"below a string", []string{"g.h"}, `{}`},
		{"below an array", []string{"j.k"}, `{}`},
	}
	d, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m, err := document.NewMask(tc.fields...)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(d.Root().AppendMasked(nil, m)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	for _, bad := range []string{"a[*].b", "a[0]", "a..b", "["} {
		if _, err := document.NewMask(bad); err == nil {
			t.Errorf("field %q was taken", bad)
		}
	}
}
