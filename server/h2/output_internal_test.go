package h2

import (
	"errors"
	"runtime"
	"testing"
)

// A stream appends no more than there is room for, but for a piece: others are to have their turn, and a client that takes
// nothing is to cost no more memory than that.
func TestChunksHaveNoMoreThanTheRoom(t *testing.T) {
	c := &conn{}
	c.out.init(&buffers{})
	c.out.flushing = true // somebody sends, who does not get on
	c.out.window = 1 << 30
	stream := func(id uint32) *stream {
		st := &stream{conn: c, id: id, window: 1 << 30}
		st.writable.L = &c.mu
		return st
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.chunksLocked(stream(1), [][]byte{make([]byte, maxPending-1000)}, maxPending-1000); err != nil {
		t.Fatal(err)
	}
	waits := stream(3)
	result := make(chan error, 1)
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		result <- c.chunksLocked(waits, [][]byte{make([]byte, 4*maxPending)}, 4*maxPending)
	}()
	for !waits.queued {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	if n := len(c.out.buf); n > maxPending+maxPiece+1000 {
		t.Errorf("%d bytes wait, where %d may and a piece", n, maxPending)
	}
	gone := errors.New("gone")
	waits.closed, waits.closeErr = true, gone
	waits.writable.Broadcast()
	c.mu.Unlock()
	if err := <-result; err != gone {
		t.Error(err)
	}
	c.mu.Lock()
	if waits.queued || len(c.out.waiters) != 0 {
		t.Error("a closed stream waits")
	}
}

// Who has sent what a socket did not take, and says so late, does not end the wait for what another sends meanwhile: a
// connection that is to end would not wait for it, and cut it off.
func TestDrainedLate(t *testing.T) {
	c := &conn{cork: &corkedConn{draining: true}} // the goroutine of a later send
	c.out.init(&buffers{})
	c.out.flushing, c.out.parked = true, true
	c.drained(nil) // of an earlier one
	if !c.out.flushing || !c.out.parked {
		t.Error("nobody waits for the socket, which has not taken all")
	}
	c.cork.draining = false
	c.drained(nil)
	if c.out.flushing || c.out.parked {
		t.Error("somebody waits for the socket, which has taken all")
	}
}
