package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// A handler that reads that its body is not as long as it was to be is too late to answer, however fast it is.
func TestMisdeclared(t *testing.T) {
	for _, tc := range []struct {
		name string
		data string // of 2 bytes
		end  bool
	}{{"more", "xyz", false}, {"less", "x", true}} {
		t.Run(tc.name, func(t *testing.T) {
			c := &conn{server: &server{}, hs: &http.Server{}, values: t.Context(), ended: func() bool { return false }, streams: map[uint32]*stream{}}
			c.server.StreamWindow = 100
			c.inflow.init(100)
			c.lastID = 1
			c.closed = true // nothing is sent
			st, ctx := c.openLocked(1)
			st.declared = 2
			var wire bytes.Buffer
			framer := http2.NewFramer(&wire, &wire)
			if err := framer.WriteData(1, tc.end, []byte(tc.data)); err != nil {
				t.Fatal(err)
			}
			f, err := framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			var reset http2.StreamError
			if err := c.processData(f.(*http2.DataFrame)); !errors.As(err, &reset) || reset.Code != http2.ErrCodeProtocol {
				t.Errorf("got %v", err)
			}
			if !st.closed || !errors.Is(ctx.Err(), context.Canceled) {
				t.Error("the handler may answer")
			}
			if _, err := io.ReadAll(&st.body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the body ends with %v", err)
			}
		})
	}
}

// A client that has taken what was left of a window hears of what was read before.
func TestReadBeforeTheWindowEnds(t *testing.T) {
	c := &conn{server: &server{}, hs: &http.Server{}, values: t.Context(), ended: func() bool { return false }, streams: map[uint32]*stream{}}
	c.out.init(&buffers{})
	c.framer = http2.NewFramer(&c.out, nil)
	c.server.StreamWindow = 1000
	c.inflow.init(100)
	c.lastID = 1
	st, _ := c.openLocked(1)
	st.declared = -1
	var wire bytes.Buffer
	framer := http2.NewFramer(&wire, &wire)
	send := func(size int) {
		t.Helper()
		if err := framer.WriteData(1, false, []byte(strings.Repeat("x", size))); err != nil {
			t.Fatal(err)
		}
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.processData(f.(*http2.DataFrame)); err != nil {
			t.Fatal(err)
		}
	}
	const read = 20
	send(60)
	c.giveLocked(st, read)
	if len(c.out.buf) > 0 {
		t.Error("a frame is sent for a fifth of the window, of which there is more")
	}
	send(40)
	f, err := http2.NewFramer(nil, bytes.NewReader(c.out.buf)).ReadFrame()
	if update, ok := f.(*http2.WindowUpdateFrame); !ok || update.StreamID != 0 || update.Increment != read {
		t.Errorf("the client, which may not send, hears %v, %v", f, err)
	}
}
