package document

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	sigsjson "sigs.k8s.io/json"
)

func readDeployment(tb testing.TB) []byte {
	tb.Helper()
	raw, err := os.ReadFile("testdata/deployment.json")
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// forms returns a 2 KiB Deployment as clients and storage spell it.
func forms(tb testing.TB) (canonical, typed, indented []byte) {
	tb.Helper()
	typed = readDeployment(tb)
	d, err := Parse(typed)
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, typed, "", "  "); err != nil {
		tb.Fatal(err)
	}
	return d.Bytes(), typed, b.Bytes()
}

func BenchmarkIngest(b *testing.B) {
	canonical, typed, indented := forms(b)
	for _, bc := range []struct {
		name string
		raw  []byte
	}{
		{"canonical", canonical},
		{"typed", typed},
		{"indented", indented},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(int64(len(bc.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Ingest(bc.raw, IngestOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkIndex(b *testing.B) {
	canonical, _, _ := forms(b)
	b.SetBytes(int64(len(canonical)))
	b.ReportAllocs()
	for b.Loop() {
		if !FromCanonical(canonical).Root().Exists() {
			b.Fatal("no root")
		}
	}
}

func BenchmarkGet(b *testing.B) {
	canonical, _, _ := forms(b)
	d := FromCanonical(canonical)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := d.Get("spec", "template", "spec", "terminationGracePeriodSeconds").Int(); !ok {
			b.Fatal("not found")
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	canonical, _, _ := forms(b)
	d := FromCanonical(canonical)
	p, err := ParsePath("spec.template.spec.containers[*].image")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !d.Root().QueryFirst(p).Exists() {
			b.Fatal("not found")
		}
	}
}

func BenchmarkEdit(b *testing.B) {
	canonical, _, _ := forms(b)
	d := FromCanonical(canonical)
	b.ReportAllocs()
	for b.Loop() {
		_, err := d.Edit().Set("12345", "metadata", "resourceVersion").Delete("status").Document()
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMap(b *testing.B) {
	canonical, _, _ := forms(b)
	d := FromCanonical(canonical)
	b.Run("document", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Map(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sigs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := sigsjson.UnmarshalCaseSensitivePreserveInts(canonical, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkValid(b *testing.B) {
	canonical, _, _ := forms(b)
	b.SetBytes(int64(len(canonical)))
	for b.Loop() {
		json.Valid(canonical)
	}
}
