package h2_test

import (
	"encoding/binary"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
)

// A request costs few allocations: its own, its header's and its context's, a dozen of the library's in frames and
// header fields, and some of the client here.
func TestAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	body := make([]byte, 2<<10)
	for server, most := range map[string]float64{standard: 45, ours: 29} {
		s := serve(t, server, options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = jsonType
			_, _ = w.Write(body)
		})
		p := newPeer(t, s)
		p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		p.must(p.framer.WriteWindowUpdate(0, 1<<30))
		id := uint32(1)
		p.get(id, "/", "accept", "application/json")
		if got := p.outcome(id); got != "200" {
			t.Fatal(got)
		}
		block := p.fields(":method", "GET", ":scheme", "https", ":authority", "example.com", ":path", "/", "accept", "application/json")
		frame := append([]byte{0, 0, byte(len(block)), byte(http2.FrameHeaders), byte(http2.FlagHeadersEndHeaders | http2.FlagHeadersEndStream), 0, 0, 0, 0}, block...)
		in := make([]byte, 8<<10)
		got := testing.AllocsPerRun(500, func() {
			id += 2
			binary.BigEndian.PutUint32(frame[5:], id)
			if _, err := p.conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			for ended := false; !ended; {
				if _, err := io.ReadFull(p.conn, in[:9]); err != nil {
					t.Fatal(err)
				}
				n := int(in[0])<<16 | int(in[1])<<8 | int(in[2])
				ended = binary.BigEndian.Uint32(in[5:]) == id && http2.Flags(in[4]).Has(http2.FlagDataEndStream)
				if _, err := io.ReadFull(p.conn, in[:n]); err != nil {
					t.Fatal(err)
				}
			}
		})
		t.Logf("%s: %v", server, got)
		if got > most {
			t.Errorf("%s: %v allocations, at most %v", server, got, most)
		}
	}
}

var jsonType = []string{"application/json"}
