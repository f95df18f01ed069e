package h2_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is a client that writes frames as the test wants them.
type peer struct {
	t       testing.TB
	conn    *tls.Conn
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newPeer(t testing.TB, s *serving) *peer {
	t.Helper()
	return newPeerOn(t, s.dial(t))
}

func newPeerOn(t testing.TB, conn *tls.Conn) *peer {
	t.Helper()
	p := &peer{t: t, conn: conn}
	p.framer = http2.NewFramer(p.conn, p.conn)
	p.framer.AllowIllegalWrites = true
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.encoder = hpack.NewEncoder(&p.block)
	p.must(p.conn.SetDeadline(time.Now().Add(30 * time.Second)))
	return p
}

func (p *peer) must(err error) {
	if err != nil {
		p.t.Helper()
		p.t.Fatal(err)
	}
}

// hello begins the connection.
func (p *peer) hello(settings ...http2.Setting) {
	p.t.Helper()
	_, err := io.WriteString(p.conn, http2.ClientPreface)
	p.must(err)
	p.must(p.framer.WriteSettings(settings...))
	for acked := false; !acked; {
		if f, ok := p.next().(*http2.SettingsFrame); ok {
			if acked = f.IsAck(); !acked {
				p.must(p.framer.WriteSettingsAck())
			}
		}
	}
}

// fields encodes a header block.
func (p *peer) fields(pairs ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		p.must(p.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	return bytes.Clone(p.block.Bytes())
}

// open sends a header block.
func (p *peer) open(id uint32, end bool, pairs ...string) {
	p.t.Helper()
	p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.fields(pairs...), EndHeaders: true, EndStream: end}))
}

// get sends a request without a body.
func (p *peer) get(id uint32, path string, pairs ...string) {
	p.t.Helper()
	p.open(id, true, append([]string{":method", "GET", ":scheme", "https", ":authority", "example.com", ":path", path}, pairs...)...)
}

// post begins a request with a body.
func (p *peer) post(id uint32, path string, pairs ...string) {
	p.t.Helper()
	p.open(id, false, append([]string{":method", "POST", ":scheme", "https", ":authority", "example.com", ":path", path}, pairs...)...)
}

// next reads a frame.
func (p *peer) next() http2.Frame {
	p.t.Helper()
	f, err := p.framer.ReadFrame()
	p.must(err)
	return f
}

// data returns what the next DATA frame holds.
func (p *peer) data() string {
	p.t.Helper()
	for {
		if d, ok := p.next().(*http2.DataFrame); ok {
			return string(d.Data())
		}
	}
}

// quiet sees that no DATA comes for a while.
func (p *peer) quiet() {
	p.t.Helper()
	p.must(p.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)))
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			break
		}
		if d, ok := f.(*http2.DataFrame); ok {
			p.t.Fatalf("%q has come", d.Data())
		}
	}
	p.must(p.conn.SetReadDeadline(time.Now().Add(30 * time.Second)))
}

// body returns the body of the only answer. give opens windows for what has come and is not the last.
func (p *peer) body(give func(n uint32)) (got []byte) {
	for {
		d, ok := p.next().(*http2.DataFrame)
		if !ok {
			continue
		}
		got = append(got, d.Data()...)
		switch {
		case d.StreamEnded():
			return got
		case len(d.Data()) > 0:
			give(uint32(len(d.Data())))
		}
	}
}

// outcome reads until something ends stream id or the connection, and says what.
func (p *peer) outcome(id uint32) string {
	p.t.Helper()
	status := ""
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			return "GOAWAY " + f.ErrCode.String()
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return "RST_STREAM " + f.ErrCode.String()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == id && status == "" {
				status = f.PseudoValue("status")
			}
			if f.StreamID == id && f.StreamEnded() {
				return status
			}
		case *http2.DataFrame:
			if f.StreamID == id && f.StreamEnded() {
				return status
			}
		case *http2.PingFrame:
			if f.IsAck() && id == 0 {
				return fmt.Sprintf("PING %x", f.Data[0])
			}
		}
	}
}
