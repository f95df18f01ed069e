package h2

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// stream is one request and its answer. It is not used again: handlers may hold on to parts of it.
type stream struct {
	conn     *conn
	id       uint32
	cancel   context.CancelFunc // of the context of the request
	body     body
	response response
	request  *http.Request
	handler  http.Handler

	// All that follows is guarded by mu of conn.
	writable sync.Cond // what the stream waits for may have changed
	window   int64     // how many bytes of DATA the client takes on this stream
	queued   bool      // in waiters of the output
	waits    bool      // for window, or for room in the output; also when it was woken and has not gone on yet
	inflow   inflow
	// received is the length of the body so far; declared is what Content-Length says, -1: nothing.
	received, declared int64
	requestEnded       bool  // no more frames of the request may come
	closed             bool  // neither side may send on it
	closeErr           error // why, if closed

	readDeadline, writeDeadline time.Time // zero: none
}

// openLocked makes a stream that a client has begun, and the context of its request.
func (c *conn) openLocked(id uint32) (*stream, context.Context) {
	st := &stream{conn: c, id: id, window: c.out.firstWindow, declared: -1}
	st.writable.L = &c.mu
	st.inflow.init(c.server.StreamWindow)
	st.body.stream = st
	st.body.readable.L = &st.body.mu
	st.response.stream = st
	ctx, cancel := context.WithCancel(c.values)
	st.cancel = cancel
	c.streams[id] = st
	if c.ended() { // cancelStreams may have run
		st.cancel()
	}
	if len(c.streams) == 1 {
		c.setStateLocked(http.StateActive)
	}
	return st, ctx
}

// closeLocked ends a stream for both sides; err is what its handler is told.
func (c *conn) closeLocked(st *stream, err error) {
	if st.closed {
		return
	}
	st.closed, st.closeErr = true, err
	delete(c.streams, st.id)
	c.leaveLocked(st)
	st.writable.Broadcast()
	st.body.end(err)
	st.cancel()
	if len(c.streams) == 0 {
		c.setStateLocked(http.StateIdle)
		c.idleLocked()
		if c.goAway {
			c.lingerLocked()
		}
	}
}

// resetLocked ends a stream and tells the client.
func (c *conn) resetLocked(st *stream, code http2.ErrCode, err error) {
	if !st.closed {
		c.rstLocked(st.id, code)
		c.closeLocked(st, err)
	}
}

// rstLocked appends RST_STREAM. The caller flushes.
func (c *conn) rstLocked(id uint32, code http2.ErrCode) {
	if c.closed {
		return
	}
	c.ours[c.oursNext] = id
	c.oursNext = (c.oursNext + 1) % len(c.ours)
	_ = c.framer.WriteRSTStream(id, code)
	c.overflowLocked()
}

// resetHere reports whether the stream was reset here a moment ago.
func (c *conn) resetHereLocked(id uint32) bool {
	for _, ours := range c.ours {
		if ours == id {
			return true
		}
	}
	return false
}

// refuse answers what a client did wrong on one stream.
func (c *conn) refuse(e http2.StreamError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.StreamID > c.lastID && e.StreamID%2 == 1 {
		c.lastID = e.StreamID // it would have been opened
	}
	if st := c.streams[e.StreamID]; st != nil {
		c.resetLocked(st, e.Code, e)
	} else {
		c.rstLocked(e.StreamID, e.Code)
	}
}

// startLocked runs the handler of a stream, now or when another has ended: a client may close streams faster than
// handlers notice. It reports false when too many wait.
func (c *conn) startLocked(st *stream) bool {
	if limit := int(c.server.MaxConcurrentStreams); c.handlers >= limit {
		if len(c.queued) >= 4*limit {
			return false
		}
		c.queued = append(c.queued, st)
		return true
	}
	c.runLocked(st)
	return true
}

// run runs the handler.
func (c *conn) run(st *stream) {
	w := &st.response
	w.scratch = c.server.acquireScratch()
	panicked := true
	defer func() {
		st.cancel()
		unread := st.body.discard()
		if form := st.request.MultipartForm; form != nil {
			_ = form.RemoveAll()
		}
		if !panicked {
			w.finish(unread)
		} else {
			// As net/http: a handler panics with ErrAbortHandler to end its answer without a word in the log.
			v := recover()
			if err, ok := v.(error); v != nil && !(ok && errors.Is(err, http.ErrAbortHandler)) {
				stack := make([]byte, 64<<10)
				stack = stack[:runtime.Stack(stack, false)]
				c.logf("http2: panic serving %v: %v\n%s", c.remote, v, stack)
			}
			c.mu.Lock()
			c.giveLocked(nil, unread)
			c.resetLocked(st, http2.ErrCodeInternal, errHandlerDone)
			c.unlockAndFlush()
		}
		w.finished = true
		c.server.releaseScratch(w.scratch)
		w.scratch = nil
	}()
	st.handler.ServeHTTP(w, st.request)
	panicked = false
}

// giveLocked gives back n bytes of the window of the connection, and of st unless it is nil or takes no more.
func (c *conn) giveLocked(st *stream, n int) {
	if c.closed {
		return
	}
	if told := c.inflow.give(n); told > 0 {
		_ = c.framer.WriteWindowUpdate(0, told)
		c.overflowLocked()
	}
	if st == nil || st.closed || st.requestEnded {
		return
	}
	if told := st.inflow.give(n); told > 0 {
		_ = c.framer.WriteWindowUpdate(st.id, told)
		c.overflowLocked()
	}
}
