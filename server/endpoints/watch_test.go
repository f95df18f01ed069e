package endpoints

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// openWatch starts a watch and returns a function that reads one frame, "" at the end.
func (w *world) openWatch(t *testing.T, path string, headers ...string) (*http.Response, func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", w.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return resp, func() string {
		line, _ := lines.ReadString('\n')
		return line
	}
}

func parse(t testing.TB, raw string) *document.Document {
	t.Helper()
	doc, err := document.Parse([]byte(raw))
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return doc
}

func TestWatchStreamsEvents(t *testing.T) {
	w := newWorld(t, Config{})
	resp, next := w.openWatch(t, widgetsPath+"?watch=1&resourceVersion=0&allowWatchBookmarks=true", "Accept-Encoding: gzip")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("Content-Encoding") != "" {
		t.Fatalf("header: %d %v", resp.StatusCode, resp.Header)
	}
	bookmark := next()
	want := `{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"100"}}}` + "\n"
	if bookmark != want {
		t.Errorf("bookmark\n%s want\n%s", bookmark, want)
	}
	created := w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`))
	if got, want := next(), `{"type":"ADDED","object":`+strings.TrimSpace(created.body)+"}\n"; got != want {
		t.Errorf("added\n%s want\n%s", got, want)
	}
	w.do(t, "PATCH", widgetsPath+"/a", `{"spec":{"color":"blue"}}`, "Content-Type: application/merge-patch+json")
	if got := parse(t, next()); got.Get("type").String() != "MODIFIED" || got.Get("object", "spec", "color").String() != "blue" {
		t.Errorf("modified: %s", got.Bytes())
	}
	w.do(t, "DELETE", widgetsPath+"/a", "")
	if got := parse(t, next()); got.Get("type").String() != "DELETED" {
		t.Errorf("deleted: %s", got.Bytes())
	}
	w.do(t, "POST", widgetsPath, widget("last", `{}`))
	if got := parse(t, next()); got.Get("object", "metadata", "name").String() != "last" {
		t.Errorf("last: %s", got.Bytes())
	}
	if got := next(); got != "" {
		t.Errorf("after the end: %s", got)
	}
}

func TestWatchErrors(t *testing.T) {
	w := newWorld(t, Config{})
	w.widgets.failWatch = apierrors.NewResourceExpired("too old resource version: 1 (5)")
	got := w.do(t, "GET", widgetsPath+"?watch=true&resourceVersion=1", "")
	if e := got.document(t); got.code != 200 || e.Get("type").String() != "ERROR" || string(e.Get("object", "code").Raw()) != "410" || e.Get("object", "reason").String() != "Expired" {
		t.Errorf("expired: %d %s", got.code, got.body)
	}
	w.widgets.failWatch = apierrors.NewTooManyRequests("storage is (re)initializing", 3)
	got = w.do(t, "GET", widgetsPath+"?watch=true", "")
	if got.code != 429 || got.header.Get("Retry-After") != "3" {
		t.Errorf("not ready: %d %v %s", got.code, got.header, got.body)
	}
	w.widgets.failWatch = nil
	got = w.do(t, "GET", widgetsPath+"?watch=true&sendInitialEvents=true", "")
	if got.code != 422 {
		t.Errorf("options: %d %s", got.code, got.body)
	}
	got = w.do(t, "GET", widgetsPath+"?watch=true", "", "Accept: application/yaml")
	if got.code != 406 {
		t.Errorf("yaml: %d %s", got.code, got.body)
	}
	w.do(t, "POST", widgetsPath, widget("broken", `{}`))
	got = w.do(t, "GET", widgetsPath+"?watch=true&resourceVersion=1", "")
	if got.code != 200 || !strings.HasPrefix(got.body, `{"type":"ERROR"`) {
		t.Errorf("error in the stream: %d %s", got.code, got.body)
	}
}

func TestWatchEndsByTimeout(t *testing.T) {
	w := newWorld(t, Config{})
	got := w.do(t, "GET", widgetsPath+"?watch=true&resourceVersion=100&timeoutSeconds=1", "")
	if got.code != 200 || got.body != "" {
		t.Errorf("%d %q", got.code, got.body)
	}
}

func TestWatchTransforms(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`))
	w.do(t, "POST", widgetsPath, widget("last", `{}`))
	partial := w.do(t, "GET", widgetsPath+"?watch=true&resourceVersion=1", "", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	first := parse(t, strings.SplitAfter(partial.body, "\n")[0])
	if first.Get("object", "kind").String() != "PartialObjectMetadata" || first.Get("object", "spec").Exists() || first.Get("object", "metadata", "name").String() != "a" {
		t.Errorf("partial: %s", first.Bytes())
	}
	table := w.do(t, "GET", widgetsPath+"?watch=true&resourceVersion=1", "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1")
	lines := strings.SplitAfter(table.body, "\n")
	if head := parse(t, lines[0]); head.Get("object", "columnDefinitions").Len() != 2 {
		t.Errorf("first row has no headers: %s", lines[0])
	}
	if second := parse(t, lines[1]); second.Get("object", "columnDefinitions").Len() != 0 || second.Get("object", "rows").Len() != 1 {
		t.Errorf("second row: %s", lines[1])
	}
}

// TestWatchOutlivesStorageVersion: an object that is stored in another version than when the watch began is shown in that
// of the watch, whatever it is asked for as.
func TestWatchOutlivesStorageVersion(t *testing.T) {
	converter := &countedConverter{Converter: renaming{"example.com"}}
	sc := &scope{version: &rest.Version{Name: "v1", Converter: converter}, kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}}
	req := httptest.NewRequest(http.MethodGet, "/?includeObject=Object", nil)
	for _, convert := range []*schema.GroupVersionKind{nil, {Group: "meta.k8s.io", Version: "v1", Kind: kindTable}} {
		frames, err := (&server{Config: Config{Now: time.Now}}).newFrames(req, sc, output{convert: convert})
		if err != nil {
			t.Fatal(err)
		}
		for _, stored := range []string{"v1", "v2", "v10"} {
			text := halves(`{"apiVersion":"example.com/` + stored + `","kind":"Widget","metadata":{"name":"a"}}`)
			other := halves(`{"addons":[],` + string(text[1:]))
			for _, obj := range []*document.Document{document.FromCanonical(text.Bytes()), document.FromPieces(text), document.FromPieces(other)} {
				chunks, err := frames.encode(t.Context(), []rest.Event{{Type: "ADDED", Object: obj}})
				if err != nil {
					t.Fatal(err)
				}
				if got := string(slices.Concat(chunks...)); !strings.Contains(got, strings.Replace(string(obj.Bytes()), stored, "v1", 1)) {
					t.Errorf("%s as %v: %s", obj.Bytes(), convert, got)
				}
				if converted := converter.count > 0; converted != (stored != "v1") {
					t.Errorf("%s is converted: %t", obj.Bytes(), converted)
				}
				converter.count = 0
			}
		}
	}
}

type countedConverter struct {
	rest.Converter
	count int
}

func (c *countedConverter) Convert(ctx context.Context, obj *document.Document, to string) (*document.Document, error) {
	c.count++
	return c.Converter.Convert(ctx, obj, to)
}

// halves is a text that is kept in two pieces.
type halves string

func (h halves) Bytes() []byte { return []byte(h) }
func (h halves) Len() int      { return len(h) }

func (h halves) Pieces(dst [][]byte) [][]byte {
	return append(dst, []byte(h[:len(h)/2]), []byte(h[len(h)/2:]))
}

// wholeFrames is a ResponseWriter that takes frames as h2's does, below one that wraps it.
type wholeFrames struct {
	*httptest.ResponseRecorder
	sent    []string
	refuses bool // what is offered
	never   bool // takes anything
}

func (w *wholeFrames) WriteChunks(chunks [][]byte, flush bool) error {
	text := string(slices.Concat(chunks...))
	if flush {
		text += "!"
	}
	w.sent = append(w.sent, text)
	return nil
}

func (w *wholeFrames) Connection() uint64 { return 1 }

func (w *wholeFrames) OfferChunks(chunks [][]byte) (taken bool, later func()) {
	if w.refuses && len(chunks) > 0 {
		return false, nil
	}
	if len(chunks) == 0 {
		return !w.never, nil
	}
	w.sent = append(w.sent, string(slices.Concat(chunks...))+"?")
	return true, func() { w.sent = append(w.sent, "later") }
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Frames go to the connection as they are, once the answer has begun; the last of those that came together sends them.
func TestFramesAreNotCopied(t *testing.T) {
	below := &wholeFrames{ResponseRecorder: httptest.NewRecorder()}
	err := answerWatch(wrapped{below}, httptest.NewRequest(http.MethodGet, "/", nil), time.Minute, func() {}, func(out stream) {
		out.write([][]byte{[]byte("a"), []byte("b")}, false)
		out.write([][]byte{[]byte("c")}, true)
		if !out.flush() {
			t.Error("the client is said to be gone")
		}
	})
	if err != nil || below.Code != http.StatusOK || !below.Flushed || !slices.Equal(below.sent, []string{"ab", "c!"}) || below.Body.Len() > 0 {
		t.Errorf("%v, %d, sent %q, body %q", err, below.Code, below.sent, below.Body)
	}
}

// offering is a cursor that offers events, and returns those that are not taken.
type offering struct {
	offers [][]rest.Event
	take   rest.Take
}

func (o *offering) Offer(take rest.Take, _ uint64) { o.take = take }

func (o *offering) Stop() {}

func (o *offering) Next(context.Context) ([]rest.Event, error) {
	for len(o.offers) > 0 {
		events := o.offers[0]
		o.offers = o.offers[1:]
		if o.take == nil {
			return events, nil
		}
		taken, later := o.take(events)
		if later != nil {
			later()
		}
		if !taken {
			return events, nil
		}
	}
	return nil, io.EOF
}

// TestEventsAreTaken: where a frame is little work and the connection does not wait, events are taken as they come.
func TestEventsAreTaken(t *testing.T) {
	events := []rest.Event{
		{Type: "ADDED", Object: document.FromCanonical([]byte(`{"a":1}`))},
		{Type: "DELETED", Object: document.FromCanonical([]byte(`{"a":2}`))},
	}
	added, deleted := `{"type":"ADDED","object":{"a":1}}`+"\n", `{"type":"DELETED","object":{"a":2}}`+"\n"
	tests := []struct {
		name    string
		refuses bool
		never   bool
		frames  frames
		want    []string
	}{
		{"taken", false, false, frames{scope: &scope{}}, []string{added + deleted + "?", "later", deleted + "?", "later"}},
		{"not taken by the connection", true, false, frames{scope: &scope{}}, []string{added, deleted + "!", deleted + "!"}},
		{"a connection that takes nothing", true, true, frames{scope: &scope{}}, []string{added, deleted + "!", deleted + "!"}},
		{"objects are converted", false, false, frames{scope: &scope{converter: same{}, version: &rest.Version{}}}, []string{added, deleted + "!", deleted + "!"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			below := &wholeFrames{ResponseRecorder: httptest.NewRecorder(), refuses: tc.refuses, never: tc.never}
			err := answerWatch(wrapped{below}, httptest.NewRequest(http.MethodGet, "/", nil), time.Minute, func() {}, func(out stream) {
				cursor := &offering{offers: [][]rest.Event{events, events[1:]}}
				if err := sendEvents(t.Context(), cursor, &tc.frames, out); err != nil {
					t.Error(err)
				}
				if takes := !tc.never && tc.frames.cheap(); (cursor.take != nil) != takes {
					t.Errorf("takes events: %t", !takes)
				}
			})
			if err != nil || !slices.Equal(below.sent, tc.want) || below.Body.Len() > 0 {
				t.Errorf("%v, sent %q, want %q, body %q", err, below.sent, tc.want, below.Body)
			}
		})
	}
}

// same is a converter between versions that are the same.
type same struct{}

func (same) Convert(_ context.Context, doc *document.Document, _ string) (*document.Document, error) {
	return doc, nil
}
