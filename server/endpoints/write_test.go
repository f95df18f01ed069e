package endpoints

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// chunked is a ResponseWriter that takes chunks as h2's does; after some it fails, as when the client has gone.
type chunked struct {
	*httptest.ResponseRecorder
	writes []int // their lengths; those that are not flushed are below zero
	fails  int   // the write that does, from 1
}

func (w *chunked) WriteChunks(chunks [][]byte, flush bool) error {
	text := slices.Concat(chunks...)
	n := len(text)
	if !flush {
		n = -n
	}
	w.writes = append(w.writes, n)
	if len(w.writes) == w.fails {
		return errors.New("gone")
	}
	_, err := w.Body.Write(text)
	return err
}

func (w *chunked) Connection() uint64 { return 1 }

func (w *chunked) OfferChunks([][]byte) (taken bool, later func()) { return false, nil }

// recorded is a ResponseWriter that hides what is below it, as one that must see each write.
type recorded struct{ http.ResponseWriter }

// TestChunksAreWrittenAsTheyAre: what goes straight to a connection is what is written to any other, with the same header,
// and where it is to be compressed, put otherwise, or hidden by who is asked, it does not.
func TestChunksAreWrittenAsTheyAre(t *testing.T) {
	object := `{"a":"` + strings.Repeat("x", 3000) + `"}`
	list := func(n, size int) (chunks [][]byte) {
		chunks = append(chunks, []byte(`[`))
		for i := range n {
			if i > 0 {
				chunks = append(chunks, []byte(","))
			}
			half := len(object) / 2
			chunks = append(chunks, []byte(object[:half]), nil, []byte(object[half:]))
		}
		if size > 0 {
			chunks = append(chunks, []byte(`,"`+strings.Repeat("y", size)+`"`))
		}
		return append(chunks, []byte(`]`))
	}
	tests := []struct {
		name   string
		method string
		out    output
		header string
		chunks [][]byte
		hides  bool
		direct int // how many writes
	}{
		{name: "little", chunks: list(1, 0)},
		{name: "some", chunks: list(3, 0), direct: 1},
		{name: "much", chunks: list(100, 0), direct: 5},
		{name: "one large piece", chunks: list(3, 1<<20), direct: 2},
		{name: "HEAD", method: http.MethodHead, chunks: list(100, 0)},
		{name: "gzip", header: "gzip", chunks: list(100, 0)},
		{name: "too little for gzip", header: "gzip", chunks: list(30, 0), direct: 2},
		{name: "pretty", out: output{pretty: true}, chunks: list(100, 0), direct: 2},
		{name: "YAML", out: output{mediaType: mediaTypeYAML}, chunks: list(100, 0)},
		{name: "each write is to be seen", chunks: list(100, 0), hides: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.out.mediaType == "" {
				tc.out.mediaType = mediaTypeJSON
			}
			req := httptest.NewRequest(tc.method, "/", nil)
			req.Header.Set("Accept-Encoding", tc.header)
			want := httptest.NewRecorder()
			writeChunks(want, req, tc.out, http.StatusOK, slices.Clone(tc.chunks))
			got := &chunked{ResponseRecorder: httptest.NewRecorder()}
			var w http.ResponseWriter = wrapped{got}
			if tc.hides {
				w = recorded{got}
			}
			writeChunks(w, req, tc.out, http.StatusOK, slices.Clone(tc.chunks))
			if g, w := fmt.Sprint(got.Header()), fmt.Sprint(want.Header()); g != w {
				t.Errorf("header %s, want %s", g, w)
			}
			if got.Body.String() != want.Body.String() {
				t.Errorf("%d bytes, not the %d that are wanted", got.Body.Len(), want.Body.Len())
			}
			if length := want.Header().Get("Content-Length"); length != "" && tc.method != http.MethodHead && length != strconv.Itoa(want.Body.Len()) {
				t.Errorf("Content-Length is %s of %d bytes", length, want.Body.Len())
			}
			if len(got.writes) != tc.direct {
				t.Errorf("writes %v, want %d", got.writes, tc.direct)
			}
			for i, n := range got.writes {
				if last := i == len(got.writes)-1; last != (n < 0) || !last && n < writeBufferSize {
					t.Errorf("writes %v: all but the last are flushed, and long", got.writes)
				}
			}
		})
	}
	t.Run("the client goes away", func(t *testing.T) {
		w := &chunked{ResponseRecorder: httptest.NewRecorder(), fails: 2}
		writeChunks(w, httptest.NewRequest(http.MethodGet, "/", nil), output{mediaType: mediaTypeJSON}, http.StatusOK, list(100, 0))
		if len(w.writes) != 2 {
			t.Errorf("%d writes, of which the second failed", len(w.writes))
		}
	})
}
