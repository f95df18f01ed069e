package h2

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// lateConn is a connection of a busy machine: who has set a time goes on when it is over, if it is short.
type lateConn struct{ *net.TCPConn }

func (c lateConn) SetWriteDeadline(at time.Time) error {
	err := c.TCPConn.SetWriteDeadline(at)
	<-time.After(2 * attemptTime)
	return err
}

// What a socket takes without waiting it takes, however late the server is: else it would say of a client that it has
// taken nothing.
func TestWriteAtOnce(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, accepted := connect(t, l)
	c := &pacedConn{Conn: lateConn{accepted.(*net.TCPConn)}}
	if _, ok := newCorkedConn(c).(*corkedConn); !ok {
		t.Skip("there is no way here to write to a socket without waiting for it")
	}
	var want bytes.Buffer
	for round := byte(0); ; round++ { // until it is full
		piece := bytes.Repeat([]byte{round}, 64<<10)
		n, err := c.writeAtOnce(piece)
		if err != nil {
			t.Fatal(err)
		}
		if want.Write(piece[:n]); n == 0 {
			break
		}
	}
	if want.Len() == 0 {
		t.Fatal("nothing is taken")
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%v; the same: %v", err, bytes.Equal(got, want.Bytes()))
	}
}

// A client that has taken what there was does not lose a stream that goes on only now.
func TestStalledIsNotLate(t *testing.T) {
	tests := []struct {
		name string
		// wait makes the stream wait, goOn lets it go on.
		wait, goOn func(c *conn, st *stream)
	}{
		{"room", func(c *conn, _ *stream) { c.out.buf = make([]byte, maxPending) }, func(c *conn, _ *stream) { c.out.buf = nil }},
		{"window of the connection", func(c *conn, _ *stream) { c.out.window = 0 }, func(c *conn, _ *stream) { c.out.window = 100 }},
		{"window of the stream", func(_ *conn, st *stream) { st.window = 0 }, func(_ *conn, st *stream) { st.window = 100 }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Now()
			c := &conn{pace: pace{patience: time.Hour, until: now}}
			c.closed = true // nothing is sent, and there is no timer
			c.out.init(&buffers{})
			st := &stream{conn: c, id: 1, window: 100}
			st.writable.L = &c.mu
			c.streams = map[uint32]*stream{1: st}
			c.out.flushing = true // somebody sends
			tc.wait(c, st)
			done := make(chan error, 1)
			go func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				done <- c.dataLocked(st, []byte("x"), false)
			}()
			c.mu.Lock()
			for !st.waits {
				c.mu.Unlock()
				runtime.Gosched()
				c.mu.Lock()
			}
			if c.out.flushing = false; tc.name != "room" && !c.stalledLocked(now) {
				t.Error("the client is said to take something")
			}
			tc.goOn(c, st)
			c.wakeLocked()
			st.writable.Signal()
			if c.stalledLocked(now) {
				t.Error("the client is said to take nothing")
			}
			c.mu.Unlock()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
