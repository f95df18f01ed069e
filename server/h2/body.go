package h2

import (
	"io"
	"net/http"
	"sync"
)

// body is Request.Body of a request that has one. Read and Close may be called at one time.
type body struct {
	stream *stream

	// Owned by the handler.
	expectContinue bool // the client waits for 100 Continue
	sawEnd         bool

	mu       sync.Mutex
	readable sync.Cond
	buf      []byte // guarded by mu; what has come
	off      int    // guarded by mu; what of it was read
	err      error  // guarded by mu; what follows buf
	closed   bool   // guarded by mu; the handler wants no more

	// trailer is what came after the body. It is written before end(io.EOF).
	trailer http.Header // guarded by mu
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.sawEnd {
		return 0, io.EOF
	}
	if b.expectContinue {
		b.expectContinue = false
		b.stream.response.sendContinue()
	}
	b.mu.Lock()
	for b.off == len(b.buf) && b.err == nil && !b.closed && len(p) > 0 {
		b.readable.Wait()
	}
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.buf[b.off:])
	if b.off += n; b.off == len(b.buf) {
		b.buf, b.off = b.buf[:0], 0
	}
	var err error
	if n == 0 && len(p) > 0 {
		err = b.err
	}
	if err == io.EOF { //nolint:errorlint // it is set as it is
		b.sawEnd = true
		declared := b.stream.request.Trailer
		for name, values := range b.trailer {
			if _, ok := declared[name]; ok {
				declared[name] = values
			}
		}
	}
	b.mu.Unlock()
	if n > 0 {
		c := b.stream.conn
		c.mu.Lock()
		c.giveLocked(b.stream, n)
		c.unlockAndFlush()
	}
	return n, err
}

// Close implements io.Closer: what has not been read is not wanted.
func (b *body) Close() error {
	unread := b.discard()
	c := b.stream.conn
	c.mu.Lock()
	c.giveLocked(nil, unread)
	c.unlockAndFlush()
	return nil
}

// discard closes b and returns how many bytes nobody has read.
func (b *body) discard() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	unread := len(b.buf) - b.off
	b.closed, b.buf, b.off = true, nil, 0
	b.readable.Broadcast()
	return unread
}

// write appends what has come. It reports whether it is wanted. hint is the length of the whole, or -1.
func (b *body) write(p []byte, hint int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.err != nil {
		return false
	}
	if b.buf == nil && hint > int64(len(p)) {
		b.buf = make([]byte, 0, min(hint, maxPiece))
	}
	if b.off > 0 && len(b.buf)+len(p) > cap(b.buf) {
		b.buf, b.off = b.buf[:copy(b.buf, b.buf[b.off:])], 0
	}
	b.buf = append(b.buf, p...)
	b.readable.Signal()
	return true
}

// end says what follows what has come. The first call counts.
func (b *body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
	}
	b.readable.Broadcast()
}

// setTrailer keeps what came after the body.
func (b *body) setTrailer(h http.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trailer = h
}
