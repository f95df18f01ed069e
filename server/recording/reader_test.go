package recording

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReader(t *testing.T) {
	review := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE","object":{"kind":"Pod"}}}`
	event := func(verb, stage, code, message, rest string) string {
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"u","stage":"` + stage + `","verb":"` + verb + `","user":{"username":"a"},` +
			`"objectRef":{"resource":"pods","namespace":"n","name":"p","apiVersion":"v1"},"responseStatus":{"code":` + code + `,"message":"` + message + `"}` + rest + `}`
	}
	object := `,"requestObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"asked"}}`
	stored := `,"responseObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"stored"}}`
	failure := `,"responseObject":{"apiVersion":"v1","kind":"Status"}`
	tests := []struct {
		name, text    string
		records       int
		skipped, line int
		broken        int
		object        string // a part of the object of the first
		check         func(r *Record) bool
		err           string
	}{
		{name: "nothing", text: ""},
		{name: "reviews", text: review + "\n\n" + review + "\n", records: 2, line: 3, object: "Pod", check: func(r *Record) bool { return r.Request.UID == "u" && r.Weir == nil }},
		{name: "without the last line end", text: review, records: 1, line: 1},
		{name: "a last line that is cut off", text: review + "\n" + review[:40], records: 1, broken: 1, line: 2},
		{name: "a line that is cut off in the middle", text: review[:40] + "\n" + review, records: 1, broken: 1, line: 2},
		{name: "a record that follows what was cut off", text: review[:40] + review + "\n" + review + "\n", records: 1, broken: 1, line: 2},
		{name: "a member of another type", text: `{"kind":"AdmissionReview","request":[]}` + "\n" + review, records: 1, broken: 1, line: 2},
		{name: "something else", text: `{"kind":"Pod"}`, err: `line 1: kind "Pod" is neither AdmissionReview nor Event`},
		{name: "the audit log has what was stored", text: event("create", "ResponseComplete", "201", "", object+stored), records: 1, line: 1, object: "stored",
			check: func(r *Record) bool {
				return r.Request.Operation == "CREATE" && r.Response.Allowed && r.Weir.WithoutVerdicts && !r.Weir.WithoutOldObject
			}},
		{name: "or what was asked for", text: event("update", "ResponseComplete", "200", "", object), records: 1, line: 1, object: "asked",
			check: func(r *Record) bool { return r.Request.Operation == "UPDATE" && r.Weir.WithoutOldObject }},
		{name: "a denial", text: event("create", "ResponseComplete", "403", "policy denied request: no", object+failure), records: 1, line: 1, object: "asked",
			check: func(r *Record) bool { return !r.Response.Allowed && r.Response.Status.Code == 403 }},
		{name: "refused by something else", text: event("create", "ResponseComplete", "409", "exists", object+failure), skipped: 1, line: 1},
		{name: "of a patch the object is that of the response", text: event("patch", "ResponseComplete", "200", "", `,"requestObject":{"spec":{}}`+stored), records: 1, line: 1, object: "stored"},
		{name: "reads and other stages", text: event("get", "ResponseComplete", "200", "", stored) + "\n" + event("create", "RequestReceived", "200", "", object), skipped: 2, line: 2},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			reader := NewReader(strings.NewReader(tc.text))
			var records []*Record
			var err error
			for err == nil {
				var r *Record
				if r, err = reader.Next(); err == nil {
					records = append(records, r)
				}
			}
			if tc.err != "" {
				if !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if !errors.Is(err, io.EOF) || len(records) != tc.records || reader.Skipped != tc.skipped || reader.Broken != tc.broken || reader.Line() != tc.line {
				t.Fatalf("%d records, %d skipped, %d broken, line %d: %v", len(records), reader.Skipped, reader.Broken, reader.Line(), err)
			}
			if tc.object != "" && !strings.Contains(string(records[0].Request.Object), tc.object) {
				t.Errorf("object %s", records[0].Request.Object)
			}
			if tc.check != nil && !tc.check(records[0]) {
				t.Errorf("got %+v, %+v", records[0].Request, records[0].Weir)
			}
		})
	}
}

func TestReaderBoundsLines(t *testing.T) {
	long := io.MultiReader(strings.NewReader(`{"kind":"`), io.LimitReader(zeros{}, maxLineBytes+1))
	if _, err := NewReader(long).Next(); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
