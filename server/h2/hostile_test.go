package h2_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"weir.dev/weir/server/h2"
)

// echo answers with the body.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// What a client does wrong is answered as RFC 9113 says, on one stream or on the connection.
func TestFaults(t *testing.T) {
	tests := []struct {
		name string
		do   func(p *peer)
		id   uint32
		want string
	}{
		{"a request", func(p *peer) { p.get(1, "/") }, 1, "200"},
		{"ping", func(p *peer) { p.must(p.framer.WritePing(false, [8]byte{7})) }, 0, "PING 7"},
		{"even stream", func(p *peer) { p.get(2, "/") }, 2, "GOAWAY PROTOCOL_ERROR"},
		{"stream goes down", func(p *peer) { p.get(5, "/"); p.get(3, "/") }, 3, "GOAWAY STREAM_CLOSED"},
		{"data on an idle stream", func(p *peer) { p.must(p.framer.WriteData(1, true, nil)) }, 1, "GOAWAY PROTOCOL_ERROR"},
		{"reset of an idle stream", func(p *peer) { p.must(p.framer.WriteRSTStream(1, 0)) }, 1, "GOAWAY PROTOCOL_ERROR"},
		{"window of an idle stream", func(p *peer) { p.must(p.framer.WriteWindowUpdate(1, 1)) }, 1, "GOAWAY PROTOCOL_ERROR"},
		{"data after the end", func(p *peer) {
			p.get(1, "/wait")
			p.must(p.framer.WriteData(1, true, []byte("x")))
		}, 1, "RST_STREAM STREAM_CLOSED"},
		{"too much for the connection", func(p *peer) {
			p.post(1, "/wait")
			for range 3 {
				p.must(p.framer.WriteData(1, false, make([]byte, 400<<10)))
			}
		}, 1, "GOAWAY FLOW_CONTROL_ERROR"},
		{"window too large", func(p *peer) {
			p.must(p.framer.WriteWindowUpdate(0, 1<<31-1))
		}, 0, "GOAWAY FLOW_CONTROL_ERROR"},
		{"window of a stream too large", func(p *peer) {
			p.get(1, "/wait")
			p.must(p.framer.WriteWindowUpdate(1, 1<<31-1))
		}, 1, "RST_STREAM FLOW_CONTROL_ERROR"},
		{"initial window too large", func(p *peer) {
			p.get(1, "/wait")
			p.must(p.framer.WriteWindowUpdate(1, 1<<30))
			p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}))
		}, 1, "GOAWAY FLOW_CONTROL_ERROR"},
		{"more than declared", func(p *peer) {
			p.post(1, "/", "content-length", "1")
			p.must(p.framer.WriteData(1, true, []byte("xy")))
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"less than declared", func(p *peer) {
			p.post(1, "/", "content-length", "3")
			p.must(p.framer.WriteData(1, true, []byte("xy")))
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"declared and absent", func(p *peer) { p.get(1, "/", "content-length", "3") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"two lengths", func(p *peer) { p.get(1, "/", "content-length", "0", "content-length", "0") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"no number", func(p *peer) { p.post(1, "/", "content-length", "-1") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"path", func(p *peer) { p.get(1, "x") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"two hosts", func(p *peer) { p.get(1, "/", "host", "other.example.com") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"connection", func(p *peer) { p.get(1, "/", "connection", "close") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"connect", func(p *peer) {
			p.open(1, true, ":method", "CONNECT", ":authority", "example.com:443")
		}, 1, "405"},
		{"connect with a path", func(p *peer) {
			p.open(1, true, ":method", "CONNECT", ":scheme", "https", ":authority", "example.com:443", ":path", "/")
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"extended connect", func(p *peer) {
			p.open(1, true, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "example.com", ":path", "/")
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"header too long", func(p *peer) { p.get(1, "/", "a", strings.Repeat("x", 15<<10), "b", strings.Repeat("y", 10<<10)) }, 1, "431"},
		{"header far too long", func(p *peer) {
			block := p.fields(":method", "GET", ":scheme", "https", ":path", "/", "a", strings.Repeat("\x7e", 60<<10))
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:16<<10]}))
			p.must(p.framer.WriteContinuation(1, true, block[16<<10:]))
		}, 1, "GOAWAY COMPRESSION_ERROR"},
		{"trailer that does not end", func(p *peer) {
			p.post(1, "/")
			p.open(1, false, "a", "b")
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"trailer with a pseudo field", func(p *peer) {
			p.post(1, "/")
			p.open(1, true, ":path", "/")
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"frame too long", func(p *peer) {
			p.post(1, "/")
			p.must(p.framer.WriteData(1, true, make([]byte, 1<<20+1)))
		}, 1, "GOAWAY FRAME_SIZE_ERROR"},
		{"ping of another length", func(p *peer) { p.must(p.framer.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, 7))) }, 0, "GOAWAY FRAME_SIZE_ERROR"},
		{"padding longer than the frame", func(p *peer) {
			p.post(1, "/")
			p.must(p.framer.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, []byte{9, 0}))
		}, 1, "GOAWAY PROTOCOL_ERROR"},
		{"padding without a length", func(p *peer) {
			p.post(1, "/")
			p.must(p.framer.WriteRawFrame(http2.FrameData, http2.FlagDataPadded, 1, nil))
		}, 1, "GOAWAY PROTOCOL_ERROR"},
		{"continuation of nothing", func(p *peer) { p.must(p.framer.WriteContinuation(1, true, nil)) }, 1, "GOAWAY PROTOCOL_ERROR"},
		{"continuations without an end", func(p *peer) {
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":method", "GET")}))
			for range 300 {
				p.must(p.framer.WriteContinuation(1, false, nil))
			}
		}, 1, "GOAWAY ENHANCE_YOUR_CALM"},
		{"many continuations", func(p *peer) {
			block := p.fields(":method", "GET", ":scheme", "https", ":path", "/", "a", strings.Repeat("\x7e", 200))
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:1], EndStream: true}))
			for i := 1; i < len(block); i++ {
				p.must(p.framer.WriteContinuation(1, i == len(block)-1, block[i:i+1]))
			}
		}, 1, "200"},
		{"a header block that others interrupt", func(p *peer) {
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.fields(":method", "GET")}))
			p.must(p.framer.WritePing(false, [8]byte{}))
		}, 1, "GOAWAY PROTOCOL_ERROR"},
		{"no window", func(p *peer) { p.must(p.framer.WriteWindowUpdate(0, 0)) }, 0, "GOAWAY PROTOCOL_ERROR"},
		{"no window of a stream", func(p *peer) {
			p.get(1, "/wait")
			p.must(p.framer.WriteWindowUpdate(1, 0))
		}, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"a name without letters", func(p *peer) { p.get(1, "/", "", "x") }, 1, "RST_STREAM PROTOCOL_ERROR"},
		{"settings that go up and down", func(p *peer) {
			p.get(1, "/wait")
			p.must(p.framer.WriteSettings(
				http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0},
				http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5}))
			p.get(3, "/")
		}, 3, "200"},
		{"push", func(p *peer) {
			p.must(p.framer.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true}))
		}, 1, "GOAWAY PROTOCOL_ERROR"},
		{"hpack", func(p *peer) {
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true}))
		}, 1, "GOAWAY COMPRESSION_ERROR"},
		{"an ack of nothing", func(p *peer) { p.must(p.framer.WriteSettingsAck()) }, 0, "GOAWAY PROTOCOL_ERROR"},
		{"many settings", func(p *peer) {
			p.must(p.framer.WriteSettings(make([]http2.Setting, 101)...))
		}, 0, "GOAWAY ENHANCE_YOUR_CALM"},
		{"unknown frame and priority", func(p *peer) {
			p.must(p.framer.WriteRawFrame(0xee, 0xff, 9, []byte("x")))
			p.must(p.framer.WritePriority(7, http2.PriorityParam{Weight: 1}))
			p.get(1, "/")
		}, 1, "200"},
		{"too many streams", func(p *peer) {
			for id := uint32(1); id <= 9; id += 2 {
				p.get(id, "/wait")
			}
		}, 9, "RST_STREAM REFUSED_STREAM"},
		{"stream after goaway", func(p *peer) {
			p.get(1, "/wait")
			p.must(p.framer.WriteGoAway(0, 0, nil))
			p.get(3, "/")
		}, 3, "GOAWAY NO_ERROR"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, ours, options{config: h2.Config{MaxConcurrentStreams: 4}, configure: func(s *http.Server) { s.MaxHeaderBytes = 20 << 10 }}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/wait" {
					<-r.Context().Done()
					return
				}
				echo(w, r)
			})
			p := newPeer(t, s)
			p.hello()
			tc.do(p)
			if got := p.outcome(tc.id); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// A stream that is refused does not cost its connection, although more of it is on its way.
func TestWhatWasOnItsWay(t *testing.T) {
	s := serve(t, ours, options{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	p := newPeer(t, s)
	p.hello()
	for id := uint32(1); id < 100; id += 2 {
		p.post(id, "/", "trailer", "a")
		if got := p.outcome(id); got != "401" {
			t.Fatal(got)
		}
		if got := p.outcome(id); got != "RST_STREAM NO_ERROR" {
			t.Fatal(got)
		}
		for range 3 { // more than a window of the connection, all in all
			p.must(p.framer.WriteData(id, false, make([]byte, 16<<10)))
		}
		p.open(id, true, "a", "b")
	}
	p.get(101, "/")
	if got := p.outcome(101); got != "401" {
		t.Error(got)
	}
}

// A client that opens and resets streams faster than handlers notice runs no more of them than its limit, and is
// dropped.
func TestRapidReset(t *testing.T) {
	const limit = 5
	var running, most atomic.Int64
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	defer end()
	s := serve(t, ours, options{config: h2.Config{MaxConcurrentStreams: limit}}, func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		<-ended // it does not look at its context
	})
	p := newPeer(t, s)
	p.hello()
	go func() {
		for id := uint32(1); id < 200; id += 2 {
			block := []byte{0x82, 0x87, 0x84} // GET https /
			if p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true}) != nil ||
				p.framer.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	if got := p.outcome(0); got != "GOAWAY ENHANCE_YOUR_CALM" {
		t.Error(got)
	}
	end()
	if n := most.Load(); n > limit {
		t.Errorf("%d handlers at one time", n)
	}
}

// A client that reads, and sends without an end what brings nothing, is dropped too. None of it costs memory.
func TestNoise(t *testing.T) {
	tests := map[string]func(f *http2.Framer, id uint32) error{
		"ping":     func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"pong":     func(f *http2.Framer, _ uint32) error { return f.WritePing(true, [8]byte{}) },
		"settings": func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
		"priority": func(f *http2.Framer, _ uint32) error { return f.WritePriority(9, http2.PriorityParam{Weight: 1}) },
		"data":     func(f *http2.Framer, _ uint32) error { return f.WriteData(1, false, nil) },
		"padding":  func(f *http2.Framer, _ uint32) error { return f.WriteDataPadded(1, false, nil, make([]byte, 3)) },
		"continuation": func(f *http2.Framer, id uint32) error {
			if id == 3 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}})
			}
			return f.WriteContinuation(3, false, nil)
		},
		"reset": func(f *http2.Framer, id uint32) error { // of a request that is good
			block := []byte{0x82, 0x87, 0x84} // GET https /
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
				return err
			}
			return f.WriteRSTStream(id, http2.ErrCodeCancel)
		},
		"refused": func(f *http2.Framer, id uint32) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}, EndHeaders: true})
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, ours, options{}, func(_ http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					<-r.Context().Done()
				}
			})
			p := newPeer(t, s)
			p.hello()
			p.post(1, "/")
			told := make(chan string, 1)
			go func() { told <- p.outcome(1) }()
			var many bytes.Buffer
			framer := http2.NewFramer(&many, nil)
			for id := uint32(3); id < 90_000; id += 2 {
				p.must(write(framer, id))
			}
			_, _ = p.conn.Write(many.Bytes()) // the server may end it before
			if got := within(t, told, "GOAWAY"); got != "GOAWAY ENHANCE_YOUR_CALM" {
				t.Error(got)
			}
		})
	}
}

// A client that asks for answers and does not read them is dropped.
func TestFloods(t *testing.T) {
	if raceEnabled {
		t.Skip("a flood is as fast as the server reads, which is a tenth under the race detector")
	}
	tests := map[string]func(f *http2.Framer, id uint32) error{
		"ping":     func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"settings": func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
		"reset": func(f *http2.Framer, id uint32) error { // each is malformed
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x82}, EndHeaders: true})
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, ours, options{}, echo)
			p := newPeer(t, s)
			p.hello()
			var many bytes.Buffer
			framer := http2.NewFramer(&many, nil)
			for id := uint32(1); ; {
				many.Reset()
				for range 1000 {
					p.must(write(framer, id))
					id += 2
				}
				if _, err := p.conn.Write(many.Bytes()); err != nil {
					if ne, ok := err.(net.Error); ok && ne.Timeout() {
						t.Error("the server neither reads nor closes")
					}
					return
				}
			}
		})
	}
}

// A client that reads nothing is dropped, though answers without a body wait for no window.
func TestHeadersNobodyReads(t *testing.T) {
	const size, most = 8 << 10, 64 << 20
	var answered atomic.Int64
	closed := make(chan struct{})
	configure := func(s *http.Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				close(closed)
			}
		}
	}
	s := serve(t, ours, options{configure: configure}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", size))
		w.WriteHeader(http.StatusNoContent)
		answered.Add(1)
	})
	p := newPeer(t, s)
	p.hello()
	block := p.fields(":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/")
	for id, sent := uint32(1), int64(0); ; id, sent = id+2, sent+1 {
		if sent*size > most {
			t.Fatalf("the answers to %d requests wait in memory", sent)
		}
		if err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true}); err != nil {
			return // the server has closed the connection
		}
		for begun := time.Now(); answered.Load() < sent; { // fewer streams than are refused
			select {
			case <-closed:
				return
			case <-time.After(10 * time.Microsecond):
			}
			if time.Since(begun) > 20*time.Second {
				t.Fatal("the server neither answers nor closes")
			}
		}
	}
}

// A client that reads nothing is dropped, though it only makes the server give its window back. Where bodies that nobody reads
// have taken nearly all of that, each byte is answered by a frame.
func TestWindowsNobodyReads(t *testing.T) {
	const window, most = 65535, 3_000_000
	s := serve(t, ours, options{config: h2.Config{ConnectionWindow: window}}, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	p := newPeer(t, s)
	p.hello()
	p.post(1, "/")
	p.post(3, "/", "content-length", "1")
	p.must(p.framer.WriteData(3, false, []byte("xx")))
	if got := p.outcome(3); got != "RST_STREAM PROTOCOL_ERROR" {
		t.Fatal(got)
	}
	for left := window - len("xx"); left > 0; left -= min(left, 16<<10) {
		p.must(p.framer.WriteData(1, false, make([]byte, min(left, 16<<10))))
	}
	var many bytes.Buffer
	framer := http2.NewFramer(&many, nil)
	for range 10_000 {
		p.must(framer.WriteData(3, false, []byte("x")))
	}
	for sent := 0; ; sent += 10_000 {
		if sent > most {
			t.Fatalf("the answers to %d frames wait in memory", sent)
		}
		if _, err := p.conn.Write(many.Bytes()); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Error("the server neither reads nor closes")
			}
			return // the server has closed the connection
		}
	}
}

// A connection without a request ends.
func TestIdle(t *testing.T) {
	for idle, inTime := 50*time.Millisecond, false; !inTime; idle *= 4 { // a busy machine may take longer for the request
		t.Run(idle.String(), func(t *testing.T) {
			p := newPeer(t, serve(t, ours, options{config: h2.Config{IdleTimeout: idle}}, echo))
			p.hello()
			p.get(1, "/")
			got := p.outcome(1)
			if inTime = got != "GOAWAY NO_ERROR" && got != "closed" || idle > 5*time.Second; !inTime {
				return
			}
			if got != "200" {
				t.Fatal(got)
			}
			if got := p.outcome(0); got != "GOAWAY NO_ERROR" {
				t.Error(got)
			}
			if got := p.outcome(0); got != "closed" {
				t.Error(got)
			}
		})
	}
}

// What is not HTTP/2 is not served.
func TestNoPreface(t *testing.T) {
	c := serve(t, ours, options{}, echo).dial(t)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(c)
	if err != nil || !bytes.Contains(data, []byte("preface")) {
		t.Errorf("%q, %v", data, err)
	}
}

// Random frames of a valid shape neither make the server panic nor wait.
func TestRandomFrames(t *testing.T) {
	s := serve(t, ours, options{}, echo)
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		frames := []byte{0, 0, 0, byte(http2.FrameSettings), 0, 0, 0, 0, 0}
		for range random.IntN(12) {
			payload := make([]byte, random.IntN(20))
			for i := range payload {
				payload[i] = byte(random.Uint32())
			}
			kind := byte(random.IntN(11))
			if kind == byte(http2.FrameHeaders) && random.IntN(3) > 0 {
				payload = []byte("\x83\x87\x84") // POST https /
			}
			frames = append(frames, 0, 0, byte(len(payload)), kind, byte(random.IntN(64)), 0, 0, 0, byte(random.IntN(8)))
			frames = append(frames, payload...)
		}
		sendFrames(t, s, frames)
	}
}

// sendFrames sends frames on a connection and reads until it ends.
func sendFrames(t *testing.T, s *serving, frames []byte) {
	c := s.dial(t)
	defer c.Close()
	_, _ = io.WriteString(c, http2.ClientPreface)
	_, _ = c.Write(frames)
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil {
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Errorf("the connection does not end: %q", frames)
		}
	}
}

// Whatever the frames, the server neither panics nor keeps anything.
func FuzzFrames(f *testing.F) {
	frame := func(kind, flags byte, id uint32, payload string) []byte {
		b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(b, id), payload...)
	}
	settings := frame(4, 0, 0, "")
	get := frame(1, 5, 1, "\x82\x87\x84")
	post := frame(1, 4, 1, "\x83\x87\x84")
	for _, frames := range [][]byte{
		get, post, append(post, frame(0, 1, 1, "body")...), append(post, frame(0, 9, 1, "\x02body\x00\x00")...),
		append(get, frame(3, 0, 1, "\x00\x00\x00\x08")...), append(get, frame(8, 0, 1, "\x7f\xff\xff\xff")...),
		frame(6, 0, 0, "12345678"), frame(7, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"), frame(2, 0, 3, "\x00\x00\x00\x01\x10"),
		append(frame(1, 1, 1, "\x82\x87"), frame(9, 4, 1, "\x84")...), frame(4, 0, 0, "\x00\x04\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"),
	} {
		f.Add(append(bytes.Clone(settings), frames...))
	}
	s := serve(f, ours, options{}, echo)
	f.Fuzz(func(t *testing.T, frames []byte) { sendFrames(t, s, frames) })
}
