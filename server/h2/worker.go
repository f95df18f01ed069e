package h2

// maxIdle is how many goroutines of a connection wait for its next requests.
const maxIdle = 16

// worker is a goroutine that runs one handler after another. A handler needs some 16 KiB of stack; a new goroutine has
// 2, and copying its stack three times was a tenth of what a GET takes.
type worker struct {
	next chan *stream // of one; nil ends it
}

// runLocked runs the handler of a stream.
func (c *conn) runLocked(st *stream) {
	c.handlers++
	if last := len(c.idle) - 1; last >= 0 {
		w := c.idle[last]
		c.idle[last] = nil
		c.idle = c.idle[:last]
		w.next <- st
		return
	}
	go (&worker{make(chan *stream, 1)}).work(c, st)
}

func (w *worker) work(c *conn, st *stream) {
	returned := false
	defer func() {
		if !returned { // a handler may end its goroutine: runtime.Goexit
			c.handlerDone(nil)
		}
	}()
	for st != nil {
		returned = false
		c.run(st)
		returned = true
		st = c.handlerDone(w)
	}
}

// handlerDone makes room for the next, and returns what w is to run, when there is something: nil ends it.
func (c *conn) handlerDone(w *worker) *stream {
	c.mu.Lock()
	c.handlers--
	st := c.dequeueLocked()
	switch {
	case st != nil && w != nil:
		c.handlers++
	case st != nil:
		c.runLocked(st)
		st = nil
	case w == nil || c.closed || len(c.idle) == maxIdle:
	default:
		c.idle = append(c.idle, w)
		c.unlockAndFlush()
		return <-w.next
	}
	c.unlockAndFlush() // windows that were given back
	return st
}

// dequeueLocked returns the stream that has waited longest for a handler to end.
func (c *conn) dequeueLocked() *stream {
	for len(c.queued) > 0 && !c.closed {
		st := c.queued[0]
		c.queued[0] = nil
		c.queued = c.queued[1:]
		if !st.closed {
			return st
		}
		c.giveLocked(nil, st.body.discard()) // it was closed before it began
	}
	return nil
}

// dismissLocked ends the goroutines that wait. The connection is closed.
func (c *conn) dismissLocked() {
	for _, w := range c.idle {
		w.next <- nil
	}
	c.idle = nil
}
