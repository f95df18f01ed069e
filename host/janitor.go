package host

import (
	"sync"
	"time"

	"weir.dev/weir/host/internal/pool"
)

// warmGuests is how many guests of a module are ready from its loading to its
// end. Those beyond are made when calls need them, and go when none does.
const warmGuests = 1

// janitor closes the guests of all modules that were idle for a while. It has
// a timer, and that only while there are guests beyond the warm ones: where
// nothing is to be done nothing runs.
type janitor struct {
	every time.Duration

	mu     sync.Mutex
	timer  *time.Timer // guarded by mu; nil: nothing is to be trimmed
	made   bool        // guarded by mu; a guest was made since the last trimming began
	closed bool        // guarded by mu

	running sync.WaitGroup
}

// guestMade tells that a module has one more guest.
func (r *Runtime) guestMade() {
	j := &r.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	j.made = true
	if j.timer == nil && !j.closed {
		j.timer = time.AfterFunc(j.every, r.trim)
	}
}

// trim closes the guests that were idle since the last time, some of which
// will have been so for twice as long.
func (r *Runtime) trim() {
	j := &r.janitor
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return
	}
	j.running.Add(1)
	defer j.running.Done()
	j.made = false
	j.mu.Unlock()

	r.mu.Lock()
	pools := make([]*pool.Pool[*guest], 0, len(r.modules))
	for m := range r.modules {
		pools = append(pools, m.pool)
	}
	r.mu.Unlock()
	left := 0
	for _, p := range pools {
		left += p.Trim(warmGuests)
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
	case left > 0 || j.made:
		j.timer.Reset(j.every)
	default:
		j.timer = nil
	}
}

// stop ends trimming, and waits for that which is running.
func (j *janitor) stop() {
	j.mu.Lock()
	j.closed = true
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	j.mu.Unlock()
	j.running.Wait()
}
