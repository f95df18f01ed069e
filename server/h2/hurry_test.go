package h2_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"weir.dev/weir/server/h2"
)

// A client that takes nothing of its answer loses it when the server is in a hurry, one that takes little does not: of what
// stays in the sockets at least so much that their kernels pass it on.
func TestHurry(t *testing.T) {
	get := func(t *testing.T, s *serving, hijack string) net.Conn {
		c := tlsDial(t, s, "http/1.1")
		if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: example.com\r\n\r\n", hijack); err != nil {
			t.Fatal(err)
		}
		return c
	}
	tests := []struct {
		name string
		// ask asks for the answer, and returns what takes some of it.
		ask func(t *testing.T, s *serving) (take func() error)
	}{
		{"http/1.1", func(t *testing.T, s *serving) func() error {
			c := get(t, s, "")
			return func() error { _, err := io.CopyN(io.Discard, c, 256<<10); return err }
		}},
		{"hijacked", func(t *testing.T, s *serving) func() error {
			c := get(t, s, "hijack")
			return func() error { _, err := io.CopyN(io.Discard, c, 256<<10); return err }
		}},
		{"socket", func(t *testing.T, s *serving) func() error {
			p := newPeer(t, s)
			p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			p.must(p.framer.WriteWindowUpdate(0, 1<<30))
			p.get(1, "/")
			return func() error {
				for range 16 {
					if _, err := p.framer.ReadFrame(); err != nil {
						return err
					}
				}
				return nil
			}
		}},
		{"window of the connection", func(t *testing.T, s *serving) func() error {
			p := newPeer(t, s)
			p.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
			p.get(1, "/")
			return func() error { return takeWindow(p, 0) }
		}},
		{"window of the stream", func(t *testing.T, s *serving) func() error {
			p := newPeer(t, s)
			p.hello()
			p.must(p.framer.WriteWindowUpdate(0, 1<<30))
			p.get(1, "/")
			return func() error { return takeWindow(p, 1) }
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			// Where the client is as late as that itself, it shows nothing.
			for patience, inTime := 300*time.Millisecond, false; !inTime; patience *= 3 {
				if patience > 10*time.Second {
					t.Fatal("the client is always late")
				}
				inTime = true
				t.Run(patience.String(), func(t *testing.T) { inTime = hurries(t, tc.ask, patience) })
			}
		})
	}
	t.Run("to come", func(t *testing.T) {
		const patience = 300 * time.Millisecond
		s := serve(t, ours, options{}, echo)
		h2.Hurry(s.listener, patience)
		p := newPeer(t, s)
		p.hello()
		for id := uint32(1); id < 6; id += 2 {
			p.get(id, "/")
			if got := p.outcome(id); got != "200" {
				t.Error(got)
			}
			<-time.After(2 * patience) // an idle one stays
		}
	})
}

// hurries serves an answer without an end to a client that takes some of it for a while. It reports false where the client
// was not in time to do so.
func hurries(t *testing.T, ask func(*testing.T, *serving) func() error, patience time.Duration) bool {
	ended := make(chan error, 1)
	stalled := make(chan struct{}, 1)
	s := serve(t, ours, options{}, func(w http.ResponseWriter, r *http.Request) {
		out := io.Writer(w)
		if r.URL.Path == "/hijack" {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			out = c
		}
		timer := time.AfterFunc(patience, func() { announce(stalled) })
		for piece := make([]byte, 32<<10); ; timer.Reset(patience) {
			if _, err := out.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	})
	take := ask(t, s)
	within(t, stalled, "a full socket")
	h2.Hurry(s.listener, patience)
	last := time.Now()
	for end := last.Add(4 * patience); last.Before(end); {
		err := take()
		if now := time.Now(); now.Sub(last) > patience/2 {
			return false
		} else if last = now; err != nil {
			t.Fatalf("while the client reads: %v", err)
		}
		<-time.After(patience / 6)
	}
	select {
	case err := <-ended:
		if time.Since(last) > patience/2 {
			return false
		}
		t.Fatalf("while the client reads: %v", err)
	default:
	}
	if err := within(t, ended, "end of the answer"); err == nil {
		t.Error("the answer ended without an error")
	}
	return true
}

// announce says it to who has not heard it.
func announce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// takeWindow gives a little window and reads what it brings.
func takeWindow(p *peer, id uint32) error {
	if err := p.framer.WriteWindowUpdate(id, 10); err != nil {
		return err
	}
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return err
		}
		if d, ok := f.(*http2.DataFrame); ok && len(d.Data()) <= 10 {
			return nil
		}
	}
}

func tlsDial(t *testing.T, s *serving, protocol string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", s.address, &tls.Config{RootCAs: s.trust, NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// waitListener counts the writes of its connections that were begun from some time on, have waited long and in vain.
type waitListener struct {
	net.Listener
	from  atomic.Pointer[time.Time]
	long  time.Duration
	waits atomic.Int64
}

func (l *waitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return waitConn{c.(*net.TCPConn), l}, nil
}

type waitConn struct {
	*net.TCPConn
	listener *waitListener
}

func (c waitConn) Write(p []byte) (int, error) {
	begun := time.Now()
	n, err := c.TCPConn.Write(p)
	if from := c.listener.from.Load(); errors.Is(err, os.ErrDeadlineExceeded) && from != nil && begun.After(*from) && time.Since(begun) > c.listener.long {
		c.listener.waits.Add(1)
	}
	return n, err
}

// TestHurryOnce: a client of HTTP/1.1 that takes nothing is waited for once, not again for each of the writes that end
// its answer and its connection, nor for the room that its socket still had. What the kernels pass on between each other
// meanwhile may look like a client that takes something, once.
func TestHurryOnce(t *testing.T) {
	const patience = 1500 * time.Millisecond
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole %v", whole), func(t *testing.T) {
			waiting := &waitListener{long: patience / 2}
			below := func(l net.Listener) net.Listener {
				waiting.Listener = l
				return waiting
			}
			stalled, returned := make(chan struct{}, 1), make(chan struct{})
			s := serve(t, ours, options{below: below}, func(w http.ResponseWriter, _ *http.Request) {
				defer close(returned)
				size := 32 << 10
				if whole {
					size = 64 << 20
				}
				timer := time.AfterFunc(patience/2, func() { announce(stalled) })
				for piece := make([]byte, size); ; timer.Reset(patience / 2) {
					if _, err := w.Write(piece); err != nil {
						return
					}
				}
			})
			c := tlsDial(t, s, "http/1.1")
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			within(t, stalled, "a full socket")
			start := time.Now()
			waiting.from.Store(&start)
			h2.Hurry(s.listener, patience)
			within(t, returned, "the handler")
			if err := s.server.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took < patience {
				t.Errorf("the connection ended after %s", took)
			}
			if n := waiting.waits.Load(); n < 1 || n > 2 {
				t.Errorf("the client was waited for %d times", n)
			}
		})
	}
}
