package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weir.dev/weir/abi/document"
)

func TestJSONCodec(t *testing.T) {
	tests := []struct {
		name   string
		stored string
		served string // with resourceVersion 7
	}{
		{
			name:   "between",
			stored: `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","uid":"u"},"spec":{}}`,
			served: `{"apiVersion":"v1","kind":"X","metadata":{"name":"a","resourceVersion":"7","uid":"u"},"spec":{}}`,
		},
		{
			name:   "last",
			stored: `{"metadata":{"name":"a"}}`,
			served: `{"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		{
			name:   "first",
			stored: `{"metadata":{"uid":"u"}}`,
			served: `{"metadata":{"resourceVersion":"7","uid":"u"}}`,
		},
		{
			name:   "alone",
			stored: `{"metadata":{}}`,
			served: `{"metadata":{"resourceVersion":"7"}}`,
		},
		{
			name:   "behind data",
			stored: `{"data":{"a":"}","b":"\"metadata\":{","c":"\\"},"metadata":{"name":"a"}}`,
			served: `{"data":{"a":"}","b":"\"metadata\":{","c":"\\"},"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		{
			name:   "behind others of that name",
			stored: `{"list":[{"metadata":{"resourceVersion":"1"}},[null,true,-1.5e3]],"metadata":{"annotations":{"resourceVersion":"2"},"name":"resourceVersion"},"resourceVersion":"3"}`,
			served: `{"list":[{"metadata":{"resourceVersion":"1"}},[null,true,-1.5e3]],"metadata":{"annotations":{"resourceVersion":"2"},"name":"resourceVersion","resourceVersion":"7"},"resourceVersion":"3"}`,
		},
		{
			name:   "numbers as they are spelled",
			stored: `{"metadata":{"name":"a"},"spec":{"a":1.0,"b":9007199254740993,"c":1e40}}`,
			served: `{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"a":1.0,"b":9007199254740993,"c":1e40}}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			served, err := JSONCodec{}.Decode([]byte(tc.stored), 7)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.served, string(served)); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
			stored, err := JSONCodec{}.Encode([]byte(tc.served))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.stored, string(stored)); diff != "" {
				t.Errorf("encode (-want +got):\n%s", diff)
			}
			// Without anything to take out the same bytes are stored.
			if again, err := (JSONCodec{}).Encode([]byte(tc.stored)); err != nil || string(again) != tc.stored {
				t.Errorf("encode again: got %s, %v", again, err)
			}
			// A row that holds a resourceVersion is read with the right one.
			if served, err := (JSONCodec{}).Decode([]byte(tc.served), 42); err != nil || string(served) != strings.Replace(tc.served, `"7"`, `"42"`, 1) {
				t.Errorf("decode with a stored resourceVersion: got %s, %v", served, err)
			}
		})
	}
}

// read decodes what is stored as a storage does that others write to.
func read(stored []byte, rv uint64) ([]byte, error) {
	canonical, err := JSONCodec{}.Check(stored)
	if err != nil {
		return nil, err
	}
	return JSONCodec{}.Decode(canonical, rv)
}

// What another writer has stored, as kube-apiserver does by encoding/json, is read as this server serves it.
func TestJSONCodecForeign(t *testing.T) {
	tests := []struct{ name, stored, served string }{
		{
			name:   "trailing newline",
			stored: `{"apiVersion":"v1","metadata":{"name":"a"}}` + "\n",
			served: `{"apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		{
			name:   "html escapes",
			stored: `{"metadata":{"name":"a"},"spec":{"\u003ck\u003e":"\u0026 \\u003c \u2028\u2029"}}` + "\n",
			served: `{"metadata":{"name":"a","resourceVersion":"7"},"spec":{"<k>":"& \\u003c ` + "\u2028\u2029" + `"}}`,
		},
		{
			name:   "control characters stay escaped",
			stored: `{"metadata":{"name":"a"},"spec":"\u0000\n\u001f"}` + "\n",
			served: `{"metadata":{"name":"a","resourceVersion":"7"},"spec":"\u0000\n\u001f"}`,
		},
		{
			name:   "numbers as they are spelled",
			stored: `{"metadata":{"name":"a"},"spec":[1.0,9007199254740993,1e+21]}` + "\n",
			served: `{"metadata":{"name":"a","resourceVersion":"7"},"spec":[1.0,9007199254740993,1e+21]}`,
		},
		{
			name:   "typed: members of a struct are out of order",
			stored: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","uid":"u","creationTimestamp":null},"data":{"k":"v"}}` + "\n",
			served: `{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"creationTimestamp":null,"name":"a","resourceVersion":"7","uid":"u"}}`,
		},
		{
			name:   "white space",
			stored: "{ \"metadata\" : {\"name\" : \"a\" } }\n",
			served: `{"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		{
			name:   "members below the top are out of order",
			stored: `{"data":{"b":"1","a":"2"},"metadata":{"labels":{"a":"b"},"name":"a"},"spec":[{"y":1,"x":{"b":1,"a":2}}]}`,
			served: `{"data":{"a":"2","b":"1"},"metadata":{"labels":{"a":"b"},"name":"a","resourceVersion":"7"},"spec":[{"x":{"a":2,"b":1},"y":1}]}`,
		},
		{
			name:   "members of metadata behind its resourceVersion are out of order",
			stored: `{"metadata":{"name":"a","resourceVersion":"1","uid":"u","selfLink":""}}`,
			served: `{"metadata":{"name":"a","resourceVersion":"7","selfLink":"","uid":"u"}}`,
		},
		{
			name:   "members behind metadata are out of order",
			stored: `{"metadata":{"name":"a"},"spec":1,"kind":"X"}`,
			served: `{"kind":"X","metadata":{"name":"a","resourceVersion":"7"},"spec":1}`,
		},
		{
			name:   "white space below the top",
			stored: `{"data":{"a": "2"},"metadata":{"name":"a"}}`,
			served: `{"data":{"a":"2"},"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		{
			name:   "the last of one name counts",
			stored: `{"data":{"a":"1","a":"2"},"data":{"b":"1","a":"3","b":"2"},"metadata":{"name":"x","name":"a"}}`,
			served: `{"data":{"a":"3","b":"2"},"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
		{
			name:   "escapes in names",
			stored: `{"metad\u0061ta":{"n\u0061me":"a","resource\u0056ersion":"1"}}`,
			served: `{"metadata":{"name":"a","resourceVersion":"7"}}`,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.stored
			stored := []byte(tc.stored)
			served, err := read(stored, 7)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.served, string(served)); diff != "" {
				t.Errorf("decode (-want +got):\n%s", diff)
			}
			if string(stored) != before {
				t.Error("the stored bytes were changed")
			}
			if err := document.FromCanonical(served).Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestJSONCodecNoMetadata(t *testing.T) {
	for stored, want := range map[string]string{
		`{}`:               `{"metadata":{"resourceVersion":"7"}}`,
		`{"a":1}`:          `{"a":1,"metadata":{"resourceVersion":"7"}}`,
		`{"spec":1}`:       `{"metadata":{"resourceVersion":"7"},"spec":1}`,
		`{"a":1,"spec":1}`: `{"a":1,"metadata":{"resourceVersion":"7"},"spec":1}`,
	} {
		if served, err := (JSONCodec{}).Decode([]byte(stored), 7); err != nil || string(served) != want {
			t.Errorf("%s: got %s, %v, want %s", stored, served, err, want)
		}
	}
}

func TestJSONCodecCorrupt(t *testing.T) {
	for _, stored := range []string{
		"", "null", "[]", `"x"`, "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{"a":1 "b":2}`, `{a:1}`, `{"a" 1}`,
		`{"metadata":null}`, `{"metadata":[]}`, `{"metadata":{`, `{"metadata":{"a"}}`, `{"metadata":{"a":}}`, `{"metadata":{"a":1,}}`,
		"k8s\x00\n\x0c\n\x02v1\x12\x06Secret", "{\"a\":\"\\ud800\"}\n", "{\"a\":\"\xff\"}\n", "{}x", `{"a":1e400}`,
	} {
		served, err := read([]byte(stored), 7)
		if CodeOf(err) != ErrCodeCorruptObj || errors.Is(err, errProtobuf) != strings.HasPrefix(stored, "k8s\x00") {
			t.Errorf("%q: got %s, %v, want a corrupt object", stored, served, err)
		}
	}
	for _, served := range []string{"", "null", "[]", "{", `{"metadata":{"a"}}`, `{"metadata":{`} {
		if stored, err := (JSONCodec{}).Encode([]byte(served)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: got %s, %v, want an error", served, stored, err)
		}
	}
}

func TestMetadataString(t *testing.T) {
	value := []byte(`{"kind":"X","metadata":{"a":1,"name":"n","quoted":"a\"\u00e9","uid":""}}`)
	for name, want := range map[string]string{"name": "n", "quoted": "a\"é", "uid": "", "a": "", "none": ""} {
		if got := MetadataString(value, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, value := range []string{"", "null", `{}`, `{"metadata":1}`, `{"metadata":{"name"`} {
		if got := MetadataString([]byte(value), "name"); got != "" {
			t.Errorf("%s: got %q", value, got)
		}
	}
}

// FuzzJSONCodec compares with decoding and encoding the whole object.
func FuzzJSONCodec(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","data":{"k":"\\\""},"metadata":{"name":"a","resourceVersion":"1","uid":"u"},"spec":[{},1,null]}`), uint64(7))
	f.Add([]byte(`{"metadata":{"managedFields":[{"f:a":{}}]}}`), uint64(math.MaxUint64))
	f.Add([]byte("{\"kind\":\"X\",\"apiVersion\":\"v1\",\"metadata\":{}}\n"), uint64(1))
	f.Add([]byte(`{"metadata":{}`), uint64(1))
	f.Fuzz(func(t *testing.T, input []byte, rv uint64) {
		// Neither may panic on anything.
		_, _ = JSONCodec{}.Decode(input, rv)
		_, _ = JSONCodec{}.Encode(input)
		_ = MetadataString(input, "name")

		if canonical, err := (JSONCodec{}).Check(input); err == nil {
			if err := document.FromCanonical(canonical).Err(); err != nil {
				t.Errorf("check %s: got %s: %v", input, canonical, err)
			}
		}

		object, ok := canonicalObject(input)
		if !ok {
			return
		}
		meta, ok := object["metadata"].(map[string]any)
		if !ok {
			return
		}
		delete(meta, "resourceVersion")
		stored := canonicalJSON(t, object)
		meta["resourceVersion"] = strconv.FormatUint(rv, 10)
		served := canonicalJSON(t, object)

		got, err := JSONCodec{}.Decode(stored, rv)
		if err != nil || !bytes.Equal(got, served) {
			t.Errorf("decode %s: got %s, %v, want %s", stored, got, err, served)
		}
		got, err = JSONCodec{}.Encode(served)
		if err != nil || !bytes.Equal(got, stored) {
			t.Errorf("encode %s: got %s, %v, want %s", served, got, err, stored)
		}
	})
}

// canonicalObject decodes input when encoding/json writes its names in the order of their spelling.
func canonicalObject(input []byte) (map[string]any, bool) {
	var object map[string]any
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber()
	if dec.Decode(&object) != nil || object == nil {
		return nil, false
	}
	// Names that need escapes may sort otherwise than they are spelled.
	return object, !bytes.ContainsAny(input, `\`) || plainNames(object)
}

func plainNames(object map[string]any) bool {
	for name, value := range object {
		if strings.ContainsAny(name, "\\\"\u2028\u2029") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
			return false
		}
		if meta, ok := value.(map[string]any); ok && name == "metadata" && !plainNames(meta) {
			return false
		}
	}
	return true
}

func canonicalJSON(t *testing.T, object map[string]any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		t.Skip(err)
	}
	return bytes.TrimSpace(buf.Bytes())
}

func BenchmarkJSONCodec(b *testing.B) {
	small := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":"2024-01-01T00:00:00Z","generation":1,"labels":{"app":"web"},"name":"web","namespace":"default","uid":"0b1c"},"spec":{"text":"` + strings.Repeat("x", 1800) + `"}}`)
	served, err := JSONCodec{}.Decode(small, 123456)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = JSONCodec{}.Decode(small, 123456)
		}
	})
	b.Run("Check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = JSONCodec{}.Check(small)
		}
	})
	b.Run("Encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = JSONCodec{}.Encode(served)
		}
	})
	b.Run("MetadataString", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = MetadataString(served, "uid")
		}
	})
}
