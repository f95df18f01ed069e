package h2_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"golang.org/x/net/http2"

	"weir.dev/weir/server/h2"
)

// TestOfferChunks: what is offered arrives as it is, and what is not taken, for windows and frames as small as they
// may be, was not written.
func TestOfferChunks(t *testing.T) {
	pieces := [][][]byte{
		{randomBytes(30), randomBytes(2000), randomBytes(2)}, {}, {nil, randomBytes(10)}, {randomBytes(900)},
		{randomBytes(16<<10 - 1), randomBytes(1)}, {randomBytes(16 << 10), randomBytes(1)}, {randomBytes(10), randomBytes(100_000)},
		{randomBytes(1), randomBytes(1)},
	}
	want := slices.Concat(slices.Concat(pieces...)...)
	for _, window := range []uint32{0, 1000, 1<<16 - 1, 1 << 20} {
		t.Run(fmt.Sprintf("window %d", window), func(t *testing.T) {
			counts := make(chan int, 1)
			s := serve(t, ours, options{}, func(w http.ResponseWriter, _ *http.Request) {
				out := w.(h2.ChunkWriter)
				if taken, _ := out.OfferChunks(pieces[0]); taken {
					t.Error("taken before the header")
				}
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				count := 0
				for _, chunks := range pieces {
					taken, later := out.OfferChunks(chunks)
					if taken {
						count++
					} else if err := out.WriteChunks(chunks, true); err != nil {
						t.Error(err)
					}
					if later != nil {
						later()
					}
				}
				counts <- count
			})
			p := newPeer(t, s)
			if window > 0 {
				p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
			} else {
				p.hello()
			}
			p.must(p.framer.WriteWindowUpdate(0, 1<<24))
			p.get(1, "/")
			got := p.body(func(n uint32) { p.must(p.framer.WriteWindowUpdate(1, n)) })
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes, want %d", len(got), len(want))
			}
			switch count := within(t, counts, "count"); {
			case window == 1<<20 && count != len(pieces):
				t.Errorf("%d of %d taken although all fit", count, len(pieces))
			case window == 1000 && count == len(pieces):
				t.Error("all taken although most do not fit")
			}
		})
	}
}

// TestOfferMuch: more than a connection gathers is not taken, and written it does not end the connection, however much
// the windows of the client allow.
func TestOfferMuch(t *testing.T) {
	large, events := randomBytes(1<<20+200<<10), make([][]byte, 256)
	for i := range events {
		events[i] = randomBytes(8 << 10)
	}
	want := slices.Concat(large, slices.Concat(events...), slices.Concat(events...), slices.Concat(events...))
	s := serve(t, ours, options{}, func(w http.ResponseWriter, _ *http.Request) {
		out := w.(h2.ChunkWriter)
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		write := func(chunks [][]byte) {
			if err := out.WriteChunks(chunks, true); err != nil {
				t.Error(err)
			}
		}
		if taken, _ := out.OfferChunks([][]byte{large}); taken {
			t.Error("a large object is taken")
		}
		write([][]byte{large})
		if taken, _ := out.OfferChunks(events); taken {
			t.Error("a large batch is taken")
		}
		write(events)
		var all []func()
		for i := range events { // nobody sends but who must
			taken, later := out.OfferChunks(events[i : i+1])
			if !taken {
				write(events[i : i+1])
			}
			if later != nil {
				all = append(all, later)
			}
		}
		for _, do := range all {
			do()
		}
		for i := range events {
			taken, later := out.OfferChunks(events[i : i+1])
			if !taken {
				write(events[i : i+1])
			}
			if later != nil {
				later()
			}
		}
	})
	p := newPeer(t, s)
	p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 28})
	p.must(p.framer.WriteWindowUpdate(0, 1<<28))
	p.get(1, "/")
	got := p.body(func(uint32) {})
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

// TestOfferTogether: what is offered to the answers of a connection is sent by the first's later, in one go.
func TestOfferTogether(t *testing.T) {
	const answers = 20
	outs, done := make(chan h2.ChunkWriter, answers), make(chan struct{})
	s := serve(t, ours, options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		outs <- w.(h2.ChunkWriter)
		<-done
	})
	defer close(done)
	p := newPeer(t, s)
	p.hello()
	var all []h2.ChunkWriter
	for i := range answers {
		p.get(uint32(2*i+1), "/")
		all = append(all, within(t, outs, "answer"))
	}
	for alone := false; !alone; { // who sent the last header may not be done with it: then it sends events too
		var later []func()
		for i, out := range all {
			taken, do := out.OfferChunks([][]byte{[]byte("event")})
			if !taken {
				t.Fatal("not taken")
			}
			if do != nil {
				later = append(later, do)
				alone = alone || i == 0
			}
		}
		if len(later) > 1 {
			t.Fatalf("%d are to send", len(later))
		}
		if alone {
			p.quiet()
		}
		for _, do := range later {
			do()
		}
		for range answers {
			if got := p.data(); got != "event" {
				t.Fatalf("%q", got)
			}
		}
	}
}

// TestOfferNotAllowed: an answer whose body has bounds takes nothing.
func TestOfferNotAllowed(t *testing.T) {
	tests := []struct {
		name, method string
		plain        bool
		before       func(http.ResponseWriter)
	}{
		{name: "no header yet", method: http.MethodGet, before: func(http.ResponseWriter) {}},
		{name: "a length", method: http.MethodGet, before: func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "5")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}},
		{name: "no body", method: http.MethodGet, before: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNoContent)
			w.(http.Flusher).Flush()
		}},
		{name: "HEAD", method: http.MethodHead, before: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}},
		{name: "something is not sent", method: http.MethodGet, before: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			_, _ = w.Write([]byte("x"))
		}},
		{name: "a connection that may wait", method: http.MethodGet, plain: true, before: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			taken := make(chan bool, 1)
			s := serve(t, ours, options{plain: tc.plain}, func(w http.ResponseWriter, _ *http.Request) {
				tc.before(w)
				yes, _ := w.(h2.ChunkWriter).OfferChunks([][]byte{[]byte("event")})
				taken <- yes
			})
			p := newPeer(t, s)
			p.hello()
			p.open(1, true, ":method", tc.method, ":scheme", "https", ":authority", "example.com", ":path", "/")
			p.outcome(1)
			if within(t, taken, "offer") {
				t.Error("taken")
			}
		})
	}
}
