package torture_test

import (
	"fmt"
	"maps"
	"slices"
)

// revision is one change as etcd tells it.
type revision struct {
	rv  int64
	key string
	// now is nil for a deletion, before for a creation.
	now, before *object
	// seen is when the recorder got it, in nanoseconds since the run began.
	seen int64
}

// revisions is all that happened to the objects of a run, in the order of their revisions.
type revisions struct {
	// from is the revision at which the state was base.
	from int64
	base map[string]object
	list []revision
	// batches: a revision may delete several objects, as the end of a lease does.
	batches bool
}

// event is what a watch tells.
type event struct {
	kind string // ADDED, MODIFIED, DELETED
	object
}

// event returns what a watch with the selector tells of a change, and whether it does.
func (r *revision) event(s selector) (event, bool) {
	is, was := s.selects(r.now), s.selects(r.before)
	switch {
	case is && was:
		return event{"MODIFIED", *r.now}, true
	case is:
		return event{"ADDED", *r.now}, true
	case was:
		gone := *r.before
		gone.rv = r.rv
		return event{"DELETED", gone}, true
	}
	return event{}, false
}

// events returns what a watch with the selector tells after a revision.
func (r *revisions) events(s selector, after int64) []event {
	first, _ := slices.BinarySearchFunc(r.list, after+1, func(r revision, rv int64) int { return int(r.rv - rv) })
	var out []event
	for i := range r.list[first:] {
		if e, ok := r.list[first+i].event(s); ok {
			out = append(out, e)
		}
	}
	return out
}

// add appends a change and returns what is wrong with it.
func (r *revisions) add(c revision) error {
	last := r.from
	shares := false
	if n := len(r.list); n > 0 {
		last = r.list[n-1].rv
		shares = r.batches && c.rv == last && c.now == nil
		for i := n - 1; shares && i >= 0 && r.list[i].rv == last; i-- {
			shares = r.list[i].now == nil && r.list[i].key != c.key
		}
	}
	r.list = append(r.list, c)
	if c.rv <= last && !shares {
		return fmt.Errorf("etcd tells revision %d of %s after %d: two changes share one, or one came twice", c.rv, c.key, last)
	}
	return nil
}

// isShared reports whether another change has the revision of change i.
func (r *revisions) isShared(i int) bool {
	rv := r.list[i].rv
	return i > 0 && r.list[i-1].rv == rv || i+1 < len(r.list) && r.list[i+1].rv == rv
}

// shared counts the revisions that are several changes'.
func (r *revisions) shared() (n int) {
	for i := range r.list {
		if r.isShared(i) && (i == 0 || r.list[i-1].rv != r.list[i].rv) {
			n++
		}
	}
	return n
}

// cursor gives the state at one revision after the other.
type cursor struct {
	revisions *revisions
	next      int
	state     map[string]object
}

func (r *revisions) cursor() *cursor {
	return &cursor{revisions: r, state: maps.Clone(r.base)}
}

// to returns the state at rv, which must not be below that of the last call. It is good until the next call.
func (c *cursor) to(rv int64) map[string]object {
	if c.state == nil {
		c.state = map[string]object{}
	}
	for ; c.next < len(c.revisions.list) && c.revisions.list[c.next].rv <= rv; c.next++ {
		if r := &c.revisions.list[c.next]; r.now != nil {
			c.state[r.key] = *r.now
		} else {
			delete(c.state, r.key)
		}
	}
	return c.state
}

// selected returns the objects of a state that a selector selects.
func selected(state map[string]object, s selector) map[string]object {
	out := map[string]object{}
	for key, o := range state {
		if s.selects(&o) {
			out[key] = o
		}
	}
	return out
}

// difference says how two states differ, "" when they do not.
func difference(got, want map[string]object) string {
	for key, w := range want {
		g, ok := got[key]
		if !ok {
			return fmt.Sprintf("%s is missing (rv %d value %s)", key, w.rv, w.value)
		}
		if g != w {
			return fmt.Sprintf("%s is %+v, want %+v", key, g, w)
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok {
			return fmt.Sprintf("%s is there (rv %d value %s) and should not be", key, g.rv, g.value)
		}
	}
	return ""
}
