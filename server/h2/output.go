package h2

import (
	"bytes"
	"runtime"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxPending is how much output may wait, in bytes, before a handler waits for it to be sent.
	maxPending = 256 << 10
	// maxPromised is how much waits for flushLater, in bytes, before a goroutine sends it.
	maxPromised = maxPending / 4 * 3
	// maxControl is how much may wait with the frames that answer those of a client. One that makes the server answer
	// and takes nothing is dropped.
	maxControl = 1 << 20
	// maxPiece is the longest DATA frame that is written, so that streams take turns.
	maxPiece = 64 << 10
	// maxRounds is how often a handler sends what others append meanwhile, before it leaves that to a goroutine.
	maxRounds = 4
)

// output is what a connection has to send, and what it may send. It is guarded by mu of the connection.
type output struct {
	buf     []byte
	buffers *buffers
	// flushing says that somebody sends, or will when the socket takes more; parked is the latter: drained goes on.
	flushing, parked bool
	// promised says that somebody will call flushPromised.
	promised bool

	// window and firstWindow are how many bytes of DATA the client takes on the connection, and on a new stream.
	window, firstWindow int64
	maxFrame            int
	// waiters are streams that wait for window, or for room in buf. One is woken at a time, and wakes the next.
	waiters []*stream

	block   bytes.Buffer // a header block that is being encoded
	encoder *hpack.Encoder
	// names are the spellings of names of fields that were met; namesBytes bounds them.
	names      map[string]string
	namesBytes int
}

func (o *output) init(buffers *buffers) {
	o.buffers = buffers
	o.window, o.firstWindow, o.maxFrame = firstWindow, firstWindow, minFrameSize
	o.encoder = hpack.NewEncoder(&o.block)
}

// Write appends a frame. It implements io.Writer for the Framer.
func (o *output) Write(p []byte) (int, error) {
	if o.buf == nil {
		o.buf = o.buffers.get()
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// data appends a DATA frame, as the Framer does, which would copy it once more.
func (o *output) data(id uint32, p []byte, end bool) {
	if o.buf == nil {
		o.buf = o.buffers.get()
	}
	var flags http2.Flags
	if end {
		flags = http2.FlagDataEndStream
	}
	o.dataHeader(id, len(p), flags)
	o.buf = append(o.buf, p...)
}

// dataHeader appends the header of a DATA frame of n bytes.
func (o *output) dataHeader(id uint32, n int, flags http2.Flags) {
	o.buf = append(o.buf, byte(n>>16), byte(n>>8), byte(n), byte(http2.FrameData), byte(flags), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// unlockAndFlush unlocks c and sees to it that its output is sent. It does not wait for the client.
func (c *conn) unlockAndFlush() {
	if c.out.flushing || c.closed || len(c.out.buf) == 0 {
		c.mu.Unlock()
		return
	}
	c.out.flushing = true
	others := c.handlers > 1
	c.mu.Unlock()
	if c.cork == nil {
		go c.flush()
		return
	}
	if others {
		runtime.Gosched() // those that one event has woken append first
	}
	c.flush()
}

// flushLater sends what OfferChunks has taken.
func (c *conn) flushLater() {
	c.mu.Lock()
	c.out.promised = false
	if c.out.flushing || c.closed || len(c.out.buf) == 0 {
		c.mu.Unlock()
		return
	}
	c.out.flushing = true
	c.mu.Unlock()
	c.flush()
}

// flush sends output until there is none. The caller has set flushing, and does not hold mu.
func (c *conn) flush() {
	c.mu.Lock()
	for round := 0; len(c.out.buf) > 0 && !c.closed; round++ {
		if round == maxRounds && c.cork != nil {
			c.mu.Unlock()
			go c.flush()
			return
		}
		if len(c.out.buf) > maxControl {
			c.failLocked()
			break
		}
		b := c.out.buf
		c.out.buf = nil
		c.wakeLocked()
		c.mu.Unlock()
		sent, err := c.send(b)
		c.out.buffers.put(b)
		c.mu.Lock()
		if err != nil {
			c.failLocked()
			break
		}
		if !sent && c.cork.busy() {
			c.out.parked = true
			c.mu.Unlock()
			return
		}
	}
	c.out.flushing = false
	c.mu.Unlock()
}

// send encrypts b and hands it to the socket. It reports whether all is sent; if not, drained will be called. A panic ends
// the connection, which would otherwise wait for ever for what was to be sent.
func (c *conn) send(b []byte) (sent bool, err error) {
	returns := false
	defer func() {
		if !returns {
			c.mu.Lock()
			c.out.flushing = false
			c.failLocked()
			c.mu.Unlock()
		}
	}()
	if c.cork == nil {
		_, err = c.tls.Write(b)
		returns = true
		return true, err
	}
	c.cork.hold()
	_, err = c.tls.Write(b)
	sent, corkErr := c.cork.release()
	if err == nil {
		err = corkErr
	}
	returns = true
	return sent, err
}

// drained goes on after the socket took what it had not taken at once.
func (c *conn) drained(err error) {
	c.mu.Lock()
	if err != nil {
		c.failLocked()
	}
	// This may be late, when a later send has parked: the goroutine that is at that calls drained too.
	parked := c.out.parked && !c.cork.busy()
	if parked {
		c.out.parked = false
	}
	c.mu.Unlock()
	if parked { // else somebody sends, or there was only what TLS says by itself
		c.flush()
	}
}

// failLocked ends a connection that cannot be written to.
func (c *conn) failLocked() {
	if c.closed {
		return
	}
	c.closed = true
	c.closeStreamsLocked(errClientGone)
	go func() { _ = c.tls.Close() }() // serve ends
}

// overflowLocked drops a client that takes nothing and makes the server answer.
func (c *conn) overflowLocked() {
	if len(c.out.buf) > maxControl {
		c.failLocked()
	}
}

// roomLocked reports whether a stream may append DATA, its own window apart.
func (c *conn) roomLocked() bool { return c.out.window > 0 && len(c.out.buf) < maxPending }

// wakeLocked wakes the stream that has waited longest, if it can go on.
func (c *conn) wakeLocked() {
	if len(c.out.waiters) == 0 || !c.roomLocked() {
		return
	}
	st := c.out.waiters[0]
	c.out.waiters[0] = nil
	if c.out.waiters = c.out.waiters[1:]; len(c.out.waiters) == 0 {
		c.out.waiters = nil
	}
	st.queued = false
	st.writable.Signal()
}

// dataLocked appends p as DATA frames, and what ends the stream after it. It waits until the client takes them, and
// until others have been sent.
func (c *conn) dataLocked(st *stream, p []byte, end bool) error {
	for {
		if st.closed {
			c.leaveLocked(st)
			c.wakeLocked()
			return st.closeErr
		}
		if len(p) > 0 && (st.window <= 0 || !c.roomLocked()) {
			c.waitLocked(st)
			continue
		}
		c.pace.moved = true
		n := int(min(int64(len(p)), int64(c.out.maxFrame), maxPiece, max(st.window, 0), max(c.out.window, 0)))
		last := n == len(p)
		c.out.data(st.id, p[:n], end && last)
		st.window -= int64(n)
		c.out.window -= int64(n)
		if p = p[n:]; last {
			c.wakeLocked()
			return nil
		}
	}
}

// chunksLocked is dataLocked for chunks of size bytes together, in as few frames as they fit in: what there is room for at a
// time, or a piece.
func (c *conn) chunksLocked(st *stream, chunks [][]byte, size int) error {
	for cut := 0; size > 0; {
		if st.closed {
			c.leaveLocked(st)
			c.wakeLocked()
			return st.closeErr
		}
		if st.window <= 0 || !c.roomLocked() {
			c.waitLocked(st)
			continue
		}
		room := max(maxPending-len(c.out.buf), maxPiece) // a frame of a few bytes is not worth it
		n := int(min(int64(size), int64(room), st.window, c.out.window))
		chunks, cut = c.framesLocked(st, chunks, cut, n)
		size -= n
	}
	return nil
}

// fitsLocked reports whether a stream may append size bytes of DATA without waiting.
func (c *conn) fitsLocked(st *stream, size int) bool {
	return !st.closed && int64(size) <= min(st.window, c.out.window) && len(c.out.buf)+size <= maxPending
}

// framesLocked appends size bytes of chunks, the first cut of which were there before, as DATA frames, for which there must be
// window. It returns what is left of chunks, and how much of the first is not.
func (c *conn) framesLocked(st *stream, chunks [][]byte, cut, size int) (rest [][]byte, _ int) {
	if size == 0 {
		return chunks, cut
	}
	c.pace.moved = true
	if c.out.buf == nil {
		c.out.buf = c.out.buffers.get()
	}
	st.window -= int64(size)
	c.out.window -= int64(size)
	left := 0 // of the frame
	for size > 0 || left > 0 {
		if cut == len(chunks[0]) {
			chunks, cut = chunks[1:], 0
			continue
		}
		if left == 0 {
			left = min(size, c.out.maxFrame, maxPiece)
			size -= left
			c.out.dataHeader(st.id, left, 0)
		}
		n := min(left, len(chunks[0])-cut)
		c.out.buf = append(c.out.buf, chunks[0][cut:cut+n]...)
		cut += n
		left -= n
	}
	c.wakeLocked()
	return chunks, cut
}

// waitLocked waits until something may have changed for st. What is pending is sent first, else nobody might.
func (c *conn) waitLocked(st *stream) {
	if !c.out.flushing && len(c.out.buf) > 0 && !c.closed {
		c.unlockAndFlush()
		c.mu.Lock()
		return
	}
	if st.window > 0 {
		if !st.queued {
			st.queued = true
			c.out.waiters = append(c.out.waiters, st)
		}
	} else { // the connection's turn is another's
		c.leaveLocked(st)
		c.wakeLocked()
	}
	st.waits = true
	c.pace.waiting++
	st.writable.Wait()
	c.pace.waiting--
	st.waits = false
	c.leaveLocked(st) // its own window may have woken it before its turn, which would be lost on one that waits no more
}

// leaveLocked takes st out of the waiters.
func (c *conn) leaveLocked(st *stream) {
	if !st.queued {
		return
	}
	st.queued = false
	for i, other := range c.out.waiters {
		if other == st {
			c.out.waiters = append(c.out.waiters[:i], c.out.waiters[i+1:]...)
			return
		}
	}
}
