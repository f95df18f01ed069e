package servertest

import (
	"io"
	"sync"
)

// testLog writes to the output of a test until the test has ended: a server that fails to stop must not
// write to a test that is over.
type testLog struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu; nil when the test is over
}

// Write implements io.Writer.
func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == nil {
		return len(p), nil
	}
	return l.out.Write(p)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = nil
}
