package h2

import "sync"

const (
	minBuffer = 16 << 10
	maxBuffer = 2 * maxPending // a larger one is not kept
)

// buffers is memory for output. A connection holds some only while it has something to send.
type buffers struct{ pool sync.Pool }

// get returns empty memory.
func (s *buffers) get() []byte {
	if b, ok := s.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, minBuffer)
}

// put takes memory back.
func (s *buffers) put(b []byte) {
	if cap(b) >= minBuffer && cap(b) <= maxBuffer {
		s.pool.Put(&b)
	}
}
