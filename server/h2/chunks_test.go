package h2_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"weir.dev/weir/server/h2"
)

// TestChunks: what is written as chunks arrives as it was written, whatever else is written and however small windows
// and frames are.
func TestChunks(t *testing.T) {
	pieces := func(sizes ...int) (chunks [][]byte) {
		for _, n := range sizes {
			chunks = append(chunks, randomBytes(n))
		}
		return chunks
	}
	events := [][][]byte{
		pieces(30, 2000, 2), pieces(), pieces(0, 10), pieces(1, 0, 1), pieces(16<<10-1, 1), pieces(16<<10, 1),
		pieces(10, 100_000, 2), pieces(5000), pieces(3, 3, 3, 3),
	}
	for _, window := range []uint32{0, 1000, 1<<16 - 1, 1 << 20} {
		for _, mixed := range []bool{false, true} {
			t.Run(fmt.Sprintf("window %d mixed %v", window, mixed), func(t *testing.T) {
				var want []byte
				for i, chunks := range events {
					if mixed && i%2 == 0 {
						want = append(want, "written;"...)
					}
					want = append(want, slices.Concat(chunks...)...)
				}
				failed := make(chan error, 1)
				s := serve(t, ours, options{}, func(w http.ResponseWriter, _ *http.Request) {
					for i, chunks := range events {
						if mixed && i%2 == 0 {
							_, _ = io.WriteString(w, "written;")
						}
						if err := w.(h2.ChunkWriter).WriteChunks(chunks, i%3 != 0); err != nil {
							failed <- err
						}
					}
				})
				p := newPeer(t, s)
				if window > 0 {
					p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
				} else {
					p.hello()
				}
				p.get(1, "/")
				got := p.body(func(n uint32) {
					p.must(p.framer.WriteWindowUpdate(0, n))
					p.must(p.framer.WriteWindowUpdate(1, n))
				})
				if !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d", len(got), len(want))
				}
				select {
				case err := <-failed:
					t.Error(err)
				default:
				}
			})
		}
	}
}

// TestChunksFillTheWindow: chunks for which there is not window enough are frames of what there is, not one each.
func TestChunksFillTheWindow(t *testing.T) {
	var chunks [][]byte
	for range 100 {
		chunks = append(chunks, randomBytes(100))
	}
	s := serve(t, ours, options{}, func(w http.ResponseWriter, _ *http.Request) {
		_ = w.(h2.ChunkWriter).WriteChunks(chunks, true)
	})
	p := newPeer(t, s)
	p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1050})
	p.get(1, "/")
	frames := 0
	got := p.body(func(n uint32) {
		frames++
		p.must(p.framer.WriteWindowUpdate(1, n))
	})
	if want := slices.Concat(chunks...); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if frames > 15 {
		t.Errorf("%d frames for 10,000 bytes in windows of 1,050", frames)
	}
}

// TestChunkIsOneFrame: chunks that fit are one frame, sent without anything that comes after, and an answer that they
// begin has its header before them.
func TestChunkIsOneFrame(t *testing.T) {
	next, errs := make(chan struct{}), make(chan error, 1)
	goOn := sync.OnceFunc(func() { close(next) })
	defer goOn()
	s := serve(t, ours, options{}, func(w http.ResponseWriter, r *http.Request) {
		chunks := w.(h2.ChunkWriter)
		_ = chunks.WriteChunks([][]byte{[]byte("a"), []byte("b"), []byte("c")}, true)
		<-next
		_ = chunks.WriteChunks([][]byte{[]byte("de")}, false)
		_ = chunks.WriteChunks([][]byte{[]byte("f")}, true)
		<-r.Context().Done()
		errs <- chunks.WriteChunks([][]byte{[]byte("g")}, true)
	})
	p := newPeer(t, s)
	p.hello()
	p.get(1, "/")
	frames := func(n int) (got []string) {
		for len(got) < n {
			switch f := p.next().(type) {
			case *http2.MetaHeadersFrame:
				got = append(got, "headers")
			case *http2.DataFrame:
				got = append(got, string(f.Data()))
			}
		}
		return got
	}
	if got := frames(2); !slices.Equal(got, []string{"headers", "abc"}) {
		t.Errorf("frames %q", got)
	}
	goOn()
	if got := frames(2); !slices.Equal(got, []string{"de", "f"}) {
		t.Errorf("frames %q", got)
	}
	p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	if err := within(t, errs, "error"); err == nil {
		t.Error("no error on a stream that is closed")
	}
}

// TestChunksNotAllowed: the bounds of a body are those of Write.
func TestChunksNotAllowed(t *testing.T) {
	tests := []struct {
		name, method string
		header       func(http.ResponseWriter)
		want         error
		body         string
	}{
		{name: "head", method: http.MethodHead},
		{name: "no content", method: http.MethodGet, header: func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, want: http.ErrBodyNotAllowed},
		{name: "too long", method: http.MethodGet, header: func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ab")
		}, want: http.ErrContentLength, body: "ab"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			errs := make(chan error, 1)
			s := serve(t, ours, options{}, func(w http.ResponseWriter, _ *http.Request) {
				if tc.header != nil {
					tc.header(w)
				}
				errs <- w.(h2.ChunkWriter).WriteChunks([][]byte{[]byte("x")}, true)
			})
			response, err := s.client(t).Do(request(t, t.Context(), tc.method, "https://"+s.address+"/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != tc.body {
				t.Errorf("body %q, %v", body, err)
			}
			if err := within(t, errs, "error"); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
