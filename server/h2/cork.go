package h2

import (
	"errors"
	"sync"
	"sync/atomic"
)

// maxGathered bounds what a corkedConn holds: an output and its control frames, and what TLS itself says.
const maxGathered = 4 << 20

var errNotTaken = errors.New("http2: the client does not read")

// corkedConn is the connection below TLS. Until cork is called it is the connection that it wraps. From then on no
// Write waits: what is written is gathered while the cork is in, then offered to the socket; a goroutine sends what it
// does not take.
type corkedConn struct {
	*pacedConn
	attempt func(fd uintptr) bool // try
	corked  atomic.Bool
	// drained is called without mu, by the goroutine that sent what the socket had not taken. Set by cork.
	drained func(error)
	buffers *buffers

	mu       sync.Mutex
	held     bool   // guarded by mu; writes are gathered
	gathered []byte // guarded by mu
	taken    int    // guarded by mu; how many bytes of gathered the socket has
	draining bool   // guarded by mu; a goroutine sends what is gathered
	err      error  // guarded by mu; of the socket
}

// cork begins gathering, in memory of buffers. Nothing may be under way.
func (c *corkedConn) cork(b *buffers, drained func(error)) {
	c.buffers, c.drained = b, drained
	c.corked.Store(true)
}

// Write implements net.Conn.
func (c *corkedConn) Write(p []byte) (int, error) {
	if !c.corked.Load() {
		return c.pacedConn.Write(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && len(c.gathered)-c.taken+len(p) > maxGathered {
		c.err = errNotTaken
	}
	if c.err != nil {
		return 0, c.err
	}
	if c.gathered == nil {
		c.gathered = c.buffers.get()
	}
	c.gathered = append(c.gathered, p...)
	if !c.held { // TLS speaks for itself: an alert, new keys
		c.sendLocked()
	}
	return len(p), nil
}

// hold puts the cork in.
func (c *corkedConn) hold() {
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
}

// release takes the cork out. It reports whether all is sent; if not, and there is no error, drained is called.
func (c *corkedConn) release() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	c.sendLocked()
	return !c.draining && c.err == nil, c.err
}

// busy reports whether drained will be called.
func (c *corkedConn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// sendLocked offers to the socket what is gathered.
func (c *corkedConn) sendLocked() {
	if c.draining || c.err != nil || len(c.gathered) == 0 {
		return
	}
	c.offerLocked()
	if ours, _ := c.outOfTime(c.err); ours { // the hurry has begun in between
		c.err = nil
		c.offerLocked()
	}
	if c.err != nil {
		return
	}
	if c.taken == len(c.gathered) {
		c.buffers.put(c.gathered)
		c.gathered, c.taken = nil, 0
		return
	}
	c.draining = true
	go c.drain()
}

// offerLocked writes what the socket takes.
func (c *corkedConn) offerLocked() {
	if c.err = c.pace(); c.err != nil { // a deadline that has passed would refuse what needs no time
		return
	}
	if err := c.raw.Write(c.attempt); err != nil {
		c.err = err
	}
}

// drain sends what the socket did not take, and waits for it.
func (c *corkedConn) drain() {
	c.mu.Lock()
	for c.err == nil && len(c.gathered) > c.taken {
		b, taken := c.gathered, c.taken
		c.gathered, c.taken = nil, 0 // what comes meanwhile goes after it
		c.mu.Unlock()
		_, err := c.pacedConn.Write(b[taken:])
		c.buffers.put(b)
		c.mu.Lock()
		if err != nil {
			c.err = err
		}
	}
	c.gathered, c.taken, c.draining = nil, 0, false
	err := c.err
	c.mu.Unlock()
	c.drained(err)
}
