package etcd3

import (
	"sync"
	"time"
)

// refusalsPause is the time between lines of the log about writes that are refused for want of space.
const refusalsPause = time.Minute

// refusals are writes that a full etcd has refused. The log has a line for the first and then one a minute: each client
// that writes would make one otherwise, or many.
type refusals struct {
	mu    sync.Mutex
	since time.Time // of the last line; zero when there was nothing to tell for a while; guarded by mu
	count int       // since then; guarded by mu
	why   string    // of the last; guarded by mu
}

// refused notes a write that was refused for want of space. That an embedded etcd takes none is in the log already.
func (h *Health) refused(why string) {
	if h == nil {
		return
	}
	r := &h.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
	r.count++
	if !r.since.IsZero() {
		return
	}
	r.since = h.clock.Now()
	if h.embedded == nil {
		r.count = 0
		h.logger.Error("etcd takes no writes", "endpoints", h.client.Endpoints(), "error", why)
	}
}

// tellRefusals logs how many there were, when it is time to.
func (h *Health) tellRefusals() {
	r := &h.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	now := h.clock.Now()
	if r.since.IsZero() || now.Sub(r.since) < refusalsPause {
		return
	}
	if r.count == 0 {
		r.since = time.Time{}
		return
	}
	h.logger.Error("writes were refused for want of space", "count", r.count, "since", r.since, "lastError", r.why)
	r.since, r.count = now, 0
}
