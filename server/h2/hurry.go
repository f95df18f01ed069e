package h2

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// attemptTime is that of a write that should not wait, where there is no other way to ask for one.
const attemptTime = 5 * time.Millisecond

// Hurry makes the connections of a Listener, those to come as well, end when their client has taken nothing for
// patience although there is something to send: what did not fit into the socket's buffer, or into the windows of
// HTTP/2. A server that ends calls it, so that clients that do not read cannot hold it. A client that takes something
// within patience is left alone, however little it is; so are connections of other listeners.
func Hurry(l net.Listener, patience time.Duration) {
	if l, ok := l.(*listener); ok && patience > 0 {
		l.hurry(patience)
	}
}

// Listener returns l with connections that let a server of Configure hand many TLS records to the socket at once, and
// that Hurry ends. To all others they are what l has.
func Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, conns: map[*pacedConn]struct{}{}}
}

type listener struct {
	net.Listener

	mu       sync.Mutex
	conns    map[*pacedConn]struct{} // guarded by mu; those that are not closed
	patience time.Duration           // guarded by mu; 0: Hurry was not called
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &pacedConn{Conn: inner, listener: l}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	patience := l.patience
	l.mu.Unlock()
	if patience > 0 {
		c.hurry(patience)
	}
	return newCorkedConn(c), nil
}

func (l *listener) hurry(patience time.Duration) {
	l.mu.Lock()
	l.patience = patience
	conns := make([]*pacedConn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, c := range conns {
		c.hurry(patience)
	}
}

func (l *listener) forget(c *pacedConn) {
	l.mu.Lock()
	delete(l.conns, c)
	l.mu.Unlock()
}

// pacedConn is a connection whose writes, once it is in a hurry, must make progress.
type pacedConn struct {
	net.Conn
	listener *listener
	raw      syscall.RawConn // nil: not a socket, or none that is written to without waiting here
	patience atomic.Int64    // a time.Duration; 0: in no hurry
	stalled  atomic.Bool     // the client has taken nothing in its time: nothing more is written

	mu       sync.Mutex
	deadline time.Time           // guarded by mu; what others have set for writes
	woken    bool                // guarded by mu; a write that was under way ends at once, to begin its time
	hurried  func(time.Duration) // guarded by mu; is told, without mu
}

// hurry begins the hurry. A write that is under way gets patience too, once it has filled the socket's buffer: what the
// client took before says nothing.
func (c *pacedConn) hurry(patience time.Duration) {
	c.mu.Lock()
	c.patience.Store(int64(patience))
	c.woken = true
	_ = c.Conn.SetWriteDeadline(time.Now()) // a connection that is closed needs no deadline
	hurried := c.hurried
	c.mu.Unlock()
	if hurried != nil {
		hurried(patience)
	}
}

// tell makes hurry call f. It calls f at once if the hurry has begun.
func (c *pacedConn) tell(f func(time.Duration)) {
	c.mu.Lock()
	c.hurried = f
	c.mu.Unlock()
	if patience := time.Duration(c.patience.Load()); patience > 0 {
		f(patience)
	}
}

// pace gives what is written next its time, in a hurry.
func (c *pacedConn) pace() error {
	if c.patience.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paceLocked()
}

func (c *pacedConn) paceLocked() error {
	c.woken = false
	at := c.deadline
	if patience := time.Duration(c.patience.Load()); patience > 0 {
		if end := time.Now().Add(patience); at.IsZero() || end.Before(at) {
			at = end
		}
	}
	return c.Conn.SetWriteDeadline(at)
}

// Write implements net.Conn. Once a client has had its time nothing more is written, be it the end of its answer or
// what TLS says at the end of a connection.
func (c *pacedConn) Write(p []byte) (int, error) {
	if c.stalled.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	if err := c.pace(); err != nil {
		return 0, err
	}
	written, err := c.Conn.Write(p)
	for {
		ours, waited := c.outOfTime(err)
		if !ours {
			return written, err
		}
		// A socket says that it is writable only when a good part of its buffer is free; a write at once takes the rest.
		n, failed := c.writeAtOnce(p[written:])
		if written += n; failed != nil || written == len(p) {
			return written, failed
		}
		if n == 0 && waited {
			c.stalled.Store(true)
			return written, err
		}
		if err := c.pace(); err != nil {
			return written, err
		}
		n, err = c.Conn.Write(p[written:])
		written += n
	}
}

// writeAtOnce writes what can be written without waiting.
func (c *pacedConn) writeAtOnce(p []byte) (int, error) {
	if c.raw == nil {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(attemptTime)); err != nil {
			return 0, err
		}
		n, err := c.Conn.Write(p)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
		return n, err
	}
	// Not a time that is short: on a busy machine it would be over before the socket is asked.
	if err := c.Conn.SetWriteDeadline(time.Time{}); err != nil {
		return 0, err
	}
	n := 0
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		n, failed = writeNow(fd, p)
		return true
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // which somebody has set meanwhile
		failed = err
	}
	return n, failed
}

// outOfTime reports whether a write has failed for the hurry alone, and whether it has waited for the whole of its time.
func (c *pacedConn) outOfTime(err error) (ours, waited bool) {
	if c.patience.Load() == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	waited = !c.woken
	c.woken = false
	return !due(c.deadline, time.Now()), waited
}

// SetWriteDeadline implements net.Conn.
func (c *pacedConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = at
	return c.paceLocked()
}

// SetDeadline implements net.Conn.
func (c *pacedConn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// Close implements net.Conn.
func (c *pacedConn) Close() error {
	c.listener.forget(c)
	return c.Conn.Close()
}

// pace is what a connection of HTTP/2 in a hurry knows of its client. It is guarded by mu of the connection. A socket
// that is full is the business of pacedConn.
type pace struct {
	patience time.Duration // 0: in no hurry
	until    time.Time     // of the time in which something must move
	waiting  int           // streams that wait for window, or for room, which they do not when all is sent
	moved    bool          // DATA was appended since until was set
}

// hurry ends c when its windows have let nothing pass for patience and there is something to send.
func (c *conn) hurry(patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace.patience = patience
	c.paceLocked(time.Now())
}

func (c *conn) paceLocked(now time.Time) {
	c.pace.moved = c.pace.waiting == 0 // what begins to wait later has its own time
	c.pace.until = now.Add(c.pace.patience)
	c.armLocked(c.pace.until)
}

// stalledLocked reports whether the client has let nothing pass for the whole of its time.
func (c *conn) stalledLocked(now time.Time) bool {
	if c.pace.patience == 0 {
		return false
	}
	if !due(c.pace.until, now) {
		c.armLocked(c.pace.until)
		return false
	}
	if c.pace.waiting > 0 && !c.pace.moved && !c.out.flushing && len(c.out.buf) == 0 && !c.wokenLocked() {
		return true
	}
	c.paceLocked(now)
	return false
}

// wokenLocked reports whether a stream waits that may go on: it is the server that is late.
func (c *conn) wokenLocked() bool {
	if !c.roomLocked() {
		return false
	}
	for _, st := range c.streams {
		if st.waits && st.window > 0 {
			return true
		}
	}
	return false
}
