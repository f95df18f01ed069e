package recording

import (
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// tellInterval is how often requests that are not recorded are told of, while there are some.
	tellInterval = time.Minute
	// calm is how long none must be lost for the loss to be over.
	calm = 10 * time.Second
)

// losses are the requests that should have been recorded and were not. Any goroutine adds to them, that of Run tells.
type losses struct {
	file               string
	queue, write, stop atomic.Int64 // since the start, by reason

	// What follows is Run's.
	began, grew time.Time // of this loss; began is zero: nothing is being lost
	told        time.Time // when one was last told of
	written     bool      // something was recorded since grew
	err         error     // why, if it is not told yet
	seen        lost      // all that is known of
	before      lost      // what was lost before this loss
	last        lost      // when it was last told of
}

type lost struct{ queue, write, stop int64 }

func (l lost) total() int64 { return l.queue + l.write + l.stop }

func (l lost) since(before lost) lost {
	return lost{l.queue - before.queue, l.write - before.write, l.stop - before.stop}
}

func (l *losses) add(reason string, requests int) {
	switch reason {
	case droppedQueue:
		l.queue.Add(int64(requests))
	case droppedWrite:
		l.write.Add(int64(requests))
	case droppedEnd:
		l.stop.Add(int64(requests))
	}
}

// tell says what is lost: at once when it begins, then once in tellInterval, and when requests are recorded again. err is
// why, or what has failed without a loss yet; written is how many were recorded since it was called last.
func (l *losses) tell(logger *slog.Logger, now time.Time, written int, err error) {
	before := l.seen
	l.seen = lost{l.queue.Load(), l.write.Load(), l.stop.Load()}
	switch {
	case l.seen != before || err != nil:
		if l.began.IsZero() {
			l.began, l.before = now, before
		}
		l.grew, l.written, l.err = now, false, err
	case written > 0:
		l.written = true
	}
	switch {
	case l.began.IsZero():
	case (l.seen != l.last || l.err != nil) && now.Sub(l.told) >= tellInterval:
		l.report(logger, now)
	case l.seen == l.last && l.written && now.Sub(l.grew) >= calm:
		l.over(logger)
	}
}

// end tells of what nobody has been told of when the recording ends.
func (l *losses) end(logger *slog.Logger, now time.Time) {
	if l.seen != l.last && !l.began.IsZero() {
		l.report(logger, now)
	}
}

func (l *losses) report(logger *slog.Logger, now time.Time) {
	n := l.seen.since(l.last)
	l.told, l.last = now, l.seen
	args := []any{"file", l.file, "lost", n.total(), "lostSinceItBegan", l.seen.since(l.before).total()}
	for _, r := range []struct {
		reason string
		n      int64
	}{{"queueFull", n.queue}, {"writeError", n.write}, {"shutdown", n.stop}} {
		if r.n > 0 {
			args = append(args, r.reason, r.n)
		}
	}
	if l.err != nil {
		args = append(args, "error", l.err)
		l.err = nil
	}
	logger.Error("admission requests cannot be recorded", args...)
}

// over tells that nothing has been lost for a while, and something was recorded.
func (l *losses) over(logger *slog.Logger) {
	logger.Info("admission requests are recorded again", "file", l.file,
		"lostSinceItBegan", l.seen.since(l.before).total(), "after", l.grew.Sub(l.began))
	l.began = time.Time{}
}
