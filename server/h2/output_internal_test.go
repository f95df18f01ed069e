package h2

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
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

// A stream that its own window wakes before its turn does not wait for a turn any more, which would be lost on it: those
// behind it would wait for ever.
func TestWokenIsNotQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &conn{streams: map[uint32]*stream{}}
		c.out.init(&buffers{})
		c.out.flushing = true // somebody sends, who does not get on
		c.out.window, c.out.firstWindow = 0, 100
		open := func(id uint32) *stream {
			st := &stream{conn: c, id: id, window: c.out.firstWindow}
			st.writable.L = &c.mu
			c.streams[id] = st
			return st
		}
		first, second, third := open(1), open(3), open(5)
		const size = 10
		write := func(st *stream) (written *bool) {
			written = new(bool)
			go func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				*written = c.dataLocked(st, make([]byte, size), false) == nil
			}()
			synctest.Wait()
			return written
		}
		more := func(st *stream) { // as WINDOW_UPDATE
			st.window += size
			st.writable.Signal()
		}
		moreForAll := func() {
			c.out.window += size
			c.wakeLocked()
		}
		first.queued = true // it has a goroutine that is late
		c.out.waiters = append(c.out.waiters, first)
		secondWritten, thirdWritten := write(second), write(third)

		c.mu.Lock()
		if err := c.resizeLocked(0); err != nil {
			t.Error(err)
		}
		more(second)
		moreForAll() // the turn of the first
		c.mu.Unlock()
		synctest.Wait()
		if !*secondWritten {
			t.Fatal("the second has not used its window")
		}

		c.mu.Lock()
		more(third)
		c.mu.Unlock()
		synctest.Wait()
		c.mu.Lock()
		moreForAll()
		c.mu.Unlock()
		synctest.Wait()
		if !*thirdWritten {
			t.Error("the third waits, although there is window")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if second.queued || len(c.out.waiters) > 0 || c.pace.waiting > 0 {
			t.Errorf("%d streams are queued and %d wait", len(c.out.waiters), c.pace.waiting)
		}
		third.closed = true
		third.writable.Broadcast()
	})
}
