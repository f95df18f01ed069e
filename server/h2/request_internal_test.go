package h2

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"testing"
)

// A field that costs a client one byte, as one that it has named before does, costs the request no place in a map.
func TestHeaderOfManyFields(t *testing.T) {
	const requests = 20
	fields := make([]hpackField, http.DefaultMaxHeaderBytes/33) // as many as the longest list of them has
	for i := range fields {
		fields[i].Name = "a"
	}
	c := &conn{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	headers := make([]http.Header, 0, requests)
	for range requests {
		headers = append(headers, c.header(fields))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / requests; held > http.DefaultMaxHeaderBytes {
		t.Errorf("a header that came in %d bytes holds %d", len(fields), held)
	}
	for _, header := range headers {
		if n := len(header["A"]); len(header) != 1 || n != len(fields) {
			t.Fatalf("%d names, %d values", len(header), n)
		}
	}
}

// All fields of a header are in it, in order, be there room for them from the first or not.
func TestHeaderBeyondItsRoom(t *testing.T) {
	var fields []hpackField
	want := http.Header{}
	for i := range 3 * manyFields {
		for _, n := range []int{i, i % 7} {
			name, value := "x-"+strconv.Itoa(n), strconv.Itoa(i)
			fields = append(fields, hpackField{Name: name, Value: value})
			want.Add(name, value)
		}
	}
	got := (&conn{}).header(fields)
	if len(got) != len(want) {
		t.Errorf("%d names, want %d", len(got), len(want))
	}
	for name, values := range want {
		if !slices.Equal(got[name], values) {
			t.Errorf("%s: %q, want %q", name, got[name], values)
		}
	}
}
