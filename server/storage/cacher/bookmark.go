package cacher

import (
	"context"
	"math/rand/v2"
	"time"

	"weir.dev/weir/server/storage"
)

// plan sets when the next bookmark is due: after a period, less a little that keeps
// watches which started together apart, or shortly before the deadline.
func (w *watcher) plan() {
	if !w.bookmarks {
		return
	}
	period := w.cacher.config.BookmarkPeriod
	now := w.cacher.config.Clock.Now()
	w.due = now.Add(period - rand.N(period/10+1))
	w.nudged = false
	if last := w.deadline.Add(-deadlineLead); !w.deadline.IsZero() && last.After(now) && last.Before(w.due) {
		w.due = last
	}
}

// dueWith returns when the next bookmark is due, given the deadline of a Next.
func (w *watcher) dueWith(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok && !deadline.Equal(w.deadline) {
		w.deadline = deadline
		if last := deadline.Add(-deadlineLead); last.Before(w.due) && last.After(w.cacher.config.Clock.Now()) {
			w.due = last
		}
	}
	return w.due
}

// bookmark sends a bookmark if one is due, and asks for a current revision shortly
// before. rv must have been read before the ring was found to hold nothing more for the
// watcher: then everything up to rv has been sent.
func (w *watcher) bookmark(ctx context.Context, rv uint64) bool {
	if !w.bookmarks {
		return false
	}
	if w.progress && rv > w.last {
		if asked := w.cacher.asked.Load(); asked != w.asked {
			w.asked = asked
			w.send(rv)
			return true
		}
	}
	now := w.cacher.config.Clock.Now()
	due := w.dueWith(ctx)
	if !w.nudged && !now.Before(due.Add(-nudgeLead)) {
		w.nudged = true
		w.cacher.nudge(now)
	}
	if now.Before(due) {
		return false
	}
	w.plan()
	if rv < w.last {
		return false
	}
	w.send(rv)
	return true
}

// send adds a bookmark of rv.
func (w *watcher) send(rv uint64) {
	w.last = rv
	w.add(storage.Event{Type: storage.Bookmark, Row: storage.Row{ResourceVersion: rv}})
}

// nudge asks for progress, at most once in the time that watchers nudge ahead.
func (c *Cacher) nudge(now time.Time) {
	last := c.lastNudge.Load()
	if now.UnixNano()-last >= int64(nudgeLead) && c.lastNudge.CompareAndSwap(last, now.UnixNano()) {
		c.requestProgress()
	}
}
