package endpoints

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/rest"
)

// discard is an http.ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header            { return d.header }
func (discard) WriteHeader(int)                  {}
func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) Flush()                           {}
func (discard) SetReadDeadline(time.Time) error  { return nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkWatchEvent is what one event costs one watcher, from the cursor to the connection.
func BenchmarkWatchEvent(b *testing.B) {
	s := newPlainStream(discard{http.Header{}}, time.Hour)
	defer s.close()
	f := &frames{scope: &scope{}}
	events := []rest.Event{{Type: "MODIFIED", ResourceVersion: "1", Object: parse(b, widget("a", `{"color":"red"}`))}}
	b.ReportAllocs()
	for b.Loop() {
		chunks, err := f.encode(b.Context(), events)
		if err != nil {
			b.Fatal(err)
		}
		s.write(chunks, true)
		s.flush()
	}
}

// BenchmarkList is what an answer of 5,000 objects costs, from the list to the connection: of a custom resource, and of built-in
// kinds, whose items have lost apiVersion and kind. Those of a Pod are next to one another, those of a ConfigMap around its data.
func BenchmarkList(b *testing.B) {
	const tail = `"metadata":{"name":"a","namespace":"default"}`
	tests := []struct {
		name, object string
		resource     rest.Resource
	}{
		{"custom", widget("a", `{"color":"red"}`), rest.Resource{Kind: "Widget", Custom: true}},
		{"pods", `{"apiVersion":"v1","kind":"Pod",` + tail + `,"spec":{"nodeName":"n"}}`, rest.Resource{Kind: "Pod"}},
		{"configmaps", `{"apiVersion":"v1","data":{"color":"red","text":"` + strings.Repeat("some text\\n", 200) + `"},"kind":"ConfigMap",` + tail + `}`, rest.Resource{Kind: "ConfigMap"}},
	}
	for _, tc := range tests {
		b.Run(tc.name, func(b *testing.B) {
			list := &rest.List{ResourceVersion: "1"}
			for range 5000 {
				list.Items = append(list.Items, parse(b, tc.object))
			}
			s := &server{}
			sc := &scope{resource: &tc.resource, kind: rest.KindOf(list.Items[0])}
			req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				if err := s.respondList(b.Context(), discard{http.Header{}}, req, sc, output{mediaType: mediaTypeJSON}, list); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
