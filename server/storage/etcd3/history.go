package etcd3

import "sync/atomic"

// history is a time in which the revisions of an etcd grew. It ends when the etcd is found to have been restored from an
// earlier state, by whichever of its Stores asks first: the others may ask when its revisions have grown past theirs again,
// and could not tell. Watches of it would wait for revisions that come again, or have missed what came instead.
type history struct {
	// latest is the highest revision that an answer has told.
	latest atomic.Int64
	over   chan struct{}
}

func newHistory() *history { return &history{over: make(chan struct{})} }

// tell notes a revision at which the etcd is or was.
func (x *history) tell(revision int64) {
	for x != nil {
		latest := x.latest.Load()
		if revision <= latest || x.latest.CompareAndSwap(latest, revision) {
			return
		}
	}
}

// question is what is known when an etcd is asked for its revision.
type question struct {
	history *history
	// least is what a linearizable read answers at least in this history.
	least int64
}

// current returns the history of now, nil where none is known.
func (h *Health) current() *history {
	if h == nil {
		return nil
	}
	return h.history.Load()
}

// question is to be taken before the etcd is asked, for heard.
func (h *Health) question() question {
	x := h.current()
	if x == nil {
		return question{}
	}
	return question{x, x.latest.Load()}
}

// heard takes the answer of a linearizable read that began after the question was taken.
func (h *Health) heard(q question, revision int64) {
	switch {
	case q.history == nil:
	case revision >= q.least:
		q.history.tell(revision)
	case h.history.CompareAndSwap(q.history, newHistory()):
		h.logger.Error("etcd went back in time: all is read again", "endpoints", h.client.Endpoints(), "seen", q.least, "current", revision)
		close(q.history.over)
	}
}
