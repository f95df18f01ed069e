package endpoints

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

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

// BenchmarkList is what an answer of 5,000 objects costs, from the list to the connection.
func BenchmarkList(b *testing.B) {
	list := &rest.List{ResourceVersion: "1"}
	for range 5000 {
		list.Items = append(list.Items, parse(b, widget("a", `{"color":"red"}`)))
	}
	s := &server{}
	sc := &scope{resource: &rest.Resource{ListKind: "WidgetList"}, kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}}
	req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.respondList(b.Context(), discard{http.Header{}}, req, sc, output{mediaType: mediaTypeJSON}, list); err != nil {
			b.Fatal(err)
		}
	}
}
