package endpoints

import (
	"net/http"
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
