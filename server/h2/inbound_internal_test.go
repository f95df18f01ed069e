package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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
