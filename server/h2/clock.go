package h2

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// A connection has one timer for the deadlines of all its streams and for its own. It is set for the earliest, and
// left alone when that one is no longer needed: a request that ends in time costs no timer.

// armLocked makes tick run at a time, or before.
func (c *conn) armLocked(at time.Time) {
	if c.closed || at.IsZero() || !c.timerAt.IsZero() && !at.Before(c.timerAt) {
		return
	}
	c.timerAt = at
	if wait := time.Until(at); c.timer == nil {
		c.timer = time.AfterFunc(wait, c.tick)
	} else {
		c.timer.Reset(wait)
	}
}

// idleLocked notes that no stream is open.
func (c *conn) idleLocked() {
	c.idleSince = time.Now()
	if c.server.IdleTimeout > 0 {
		c.armLocked(c.idleSince.Add(c.server.IdleTimeout))
	}
}

// tick does what is due.
func (c *conn) tick() {
	c.mu.Lock()
	now := time.Now()
	c.timerAt = time.Time{}
	for _, st := range c.streams {
		if due(st.readDeadline, now) {
			st.readDeadline = time.Time{}
			st.readExpired()
		}
		if due(st.writeDeadline, now) {
			c.resetLocked(st, http2.ErrCodeInternal, os.ErrDeadlineExceeded)
			continue
		}
		c.armLocked(st.readDeadline)
		c.armLocked(st.writeDeadline)
	}
	if len(c.streams) == 0 && !c.idleSince.IsZero() && c.server.IdleTimeout > 0 && !c.goAway {
		if at := c.idleSince.Add(c.server.IdleTimeout); due(at, now) {
			c.goAwayLocked(http2.ErrCodeNo)
		} else {
			c.armLocked(at)
		}
	}
	end := due(c.closeAt, now) && !c.lingersLocked(now) || c.stalledLocked(now)
	c.armLocked(c.closeAt)
	c.unlockAndFlush()
	if end {
		_ = c.tls.Close() // serve ends
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// readExpired ends the body of a request whose time is up.
func (st *stream) readExpired() {
	// Wrapped, as net/http does, so that nobody compares it.
	st.body.end(fmt.Errorf("%w", os.ErrDeadlineExceeded))
}

// setReadDeadline bounds the reading of the body. Once it has passed, nothing brings it back.
func (st *stream) setReadDeadline(at time.Time) {
	c := st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if due(at, time.Now()) {
		st.readExpired()
		return
	}
	st.readDeadline = at
	if !st.closed {
		c.armLocked(at)
	}
}

// setWriteDeadline bounds the answer: the stream is reset when it passes.
func (st *stream) setWriteDeadline(at time.Time) {
	c := st.conn
	c.mu.Lock()
	st.writeDeadline = at
	switch {
	case st.closed:
	case due(at, time.Now()):
		c.resetLocked(st, http2.ErrCodeInternal, os.ErrDeadlineExceeded)
	default:
		c.armLocked(at)
	}
	c.unlockAndFlush()
}
