package server

import (
	"fmt"
	"strings"
	"testing"
)

func TestLineageCodec(t *testing.T) {
	tests := []struct{ name, stored, want string }{
		{"canonical", `{"apiVersion":"v1","data":{"uid":"x"},"kind":"ConfigMap","metadata":{"annotations":{"a":"b"},"name":"n","namespace":"ns","uid":"u"}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","namespace":"ns","uid":"u"}}`},
		{"all", `{"apiVersion":"v1","kind":"X","metadata":{"deletionTimestamp":"d","finalizers":["f"],"labels":{},"name":"n","ownerReferences":[{"uid":"o"}],"resourceVersion":"1","uid":"u"},"status":{}}`,
			`{"apiVersion":"v1","kind":"X","metadata":{"deletionTimestamp":"d","finalizers":["f"],"name":"n","ownerReferences":[{"uid":"o"}],"uid":"u"}}`},
		{"upstream's", `{"kind":"X", "apiVersion":"v1","metadata":{"uid":"u","name":"n"}}` + "\n", `{"apiVersion":"v1","kind":"X","metadata":{"name":"n","uid":"u"}}`},
		{"no kind", `{"metadata":{"name":"n"}}`, `{"metadata":{"name":"n"}}`},
		{"no object", `[1]`, `{"metadata":{}}`},
		{"metadata is no object", `{"kind":"X","metadata":7}`, `{"kind":"X","metadata":{}}`},
		{"no JSON", "k8s\x00", `{}`},
		{"nothing", "", `{}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := newLineageCodec().Decode([]byte(tc.stored), 7)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
	if _, err := (lineageCodec{}).Encode(nil); err == nil {
		t.Error("rows can be written")
	}
}

// BenchmarkLineageCodec is what each write of a 2 KiB object costs the garbage collector, twice for an update.
func BenchmarkLineageCodec(b *testing.B) {
	stored := []byte(fmt.Sprintf(`{"apiVersion":"v1","data":{"a":%q},"kind":"ConfigMap","metadata":{"name":"n","namespace":"ns","uid":"u"}}`, strings.Repeat("x", 2000)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newLineageCodec().Decode(stored, 7); err != nil {
			b.Fatal(err)
		}
	}
}
