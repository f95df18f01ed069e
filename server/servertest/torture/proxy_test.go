package torture_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// weather is what a proxy does to the bytes that pass it; the zero value lets them.
type weather struct {
	// delay of each piece, each way.
	delay time.Duration
	// up and down hold what goes to the server and to the client: the connection is half open, or dead where both are.
	up, down bool
	// refuse resets new connections.
	refuse bool
	// cut holds the connections of these sources; see proxy.identify.
	cut map[string]bool
}

// proxy passes TCP connections on to target.
type proxy struct {
	listener net.Listener
	target   string
	// identify returns the source that the first bytes of a connection tell; nil where that is of no interest.
	identify func(head []byte) string

	mu      sync.Mutex
	weather weather            // guarded by mu
	changed chan struct{}      // closed when the weather changes; guarded by mu
	open    map[*link]struct{} // guarded by mu
	closed  bool               // guarded by mu
	work    sync.WaitGroup

	did passing
}

// passing counts what a proxy did to what passes it: pieces that were late or held, and connections.
type passing struct{ delayed, held, refused, reset atomic.Int64 }

// link is one connection through a proxy.
type link struct {
	near   net.Conn
	source string
	once   sync.Once
	ended  chan struct{}

	mu  sync.Mutex
	far net.Conn // nil before it is dialled; guarded by mu
}

// newProxy starts a proxy that ends with the test.
func newProxy(t *testing.T, target string, identify func([]byte) string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target, identify: identify, changed: make(chan struct{}), open: map[*link]struct{}{}}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.reset()
	p.work.Wait()
}

// set changes the weather.
func (p *proxy) set(w weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
	close(p.changed)
	p.changed = make(chan struct{})
}

// now returns the weather and what is closed when it changes.
func (p *proxy) now() (weather, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather, p.changed
}

// reset resets all connections and returns how many there were.
func (p *proxy) reset() int {
	p.mu.Lock()
	links := make([]*link, 0, len(p.open))
	for l := range p.open {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.end()
	}
	p.did.reset.Add(int64(len(links)))
	return len(links)
}

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		if w, _ := p.now(); w.refuse {
			p.did.refused.Add(1)
			abort(near)
			continue
		}
		p.work.Go(func() { p.serve(near) })
	}
}

// serve carries one connection.
func (p *proxy) serve(near net.Conn) {
	l := &link{near: near, ended: make(chan struct{})}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		abort(near)
		return
	}
	p.open[l] = struct{}{}
	p.mu.Unlock()
	defer func() {
		l.end()
		p.mu.Lock()
		delete(p.open, l)
		p.mu.Unlock()
	}()
	var head []byte
	if p.identify != nil {
		buf := make([]byte, 4096)
		for len(head) < len(buf) && !bytes.Contains(head, []byte("\r\n\r\n")) {
			n, err := near.Read(buf[len(head):])
			head = buf[:len(head)+n]
			if err != nil {
				return
			}
		}
		l.source = p.identify(head)
	}
	far, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return
	}
	l.mu.Lock()
	l.far = far
	l.mu.Unlock()
	select {
	case <-l.ended:
		abort(far)
		return
	default:
	}
	var both sync.WaitGroup
	both.Go(func() {
		p.copy(l, far, io.MultiReader(bytes.NewReader(head), near), func(w weather) bool { return w.up })
	})
	both.Go(func() { p.copy(l, near, far, func(w weather) bool { return w.down }) })
	both.Wait()
	abort(far)
}

// copy carries one direction. When it ends, both do.
func (p *proxy) copy(l *link, to io.Writer, from io.Reader, held func(weather) bool) {
	defer l.end()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		for n > 0 {
			w, changed := p.now()
			if held(w) || w.cut[l.source] {
				p.did.held.Add(1)
				select {
				case <-changed:
				case <-l.ended:
					return
				}
				continue
			}
			if w.delay > 0 {
				p.did.delayed.Add(1)
				timer := time.NewTimer(w.delay)
				select {
				case <-timer.C:
				case <-l.ended:
					timer.Stop()
					return
				}
			}
			break
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// end resets the connection on both sides.
func (l *link) end() {
	l.once.Do(func() {
		close(l.ended)
		abort(l.near)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.far != nil {
			abort(l.far)
		}
	})
}

// abort closes with a reset instead of an orderly end.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// raftSource reads which etcd member a request between members comes from.
func raftSource(head []byte) string {
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, "X-Server-From") {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestProxy(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = server.Close(); serving.Wait() })
	p := newProxy(t, server.Addr().String(), nil)
	t.Cleanup(p.close)
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo := func() error {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	if err := echo(); err != nil {
		t.Fatalf("passing: %v", err)
	}
	p.set(weather{down: true})
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err = eventually(ctx, time.Millisecond, func(context.Context) error {
		if p.did.held.Load() == 0 {
			return errors.New("nothing is held")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var late net.Error
	if _, err := io.ReadFull(c, make([]byte, 1)); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("halved: %v, want a timeout", err)
	}
	p.set(weather{})
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("what was held does not come: %v", err)
	}
	if p.did.held.Load() != 1 {
		t.Errorf("%d pieces held, want one", p.did.held.Load())
	}
	if p.reset() != 1 || p.did.reset.Load() != 1 {
		t.Error("not one connection")
	}
	if err := echo(); err == nil {
		t.Error("a connection that was reset passes")
	}
}
