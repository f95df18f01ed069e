package torture_test

import (
	"fmt"
	"slices"
)

// segment is what a watcher saw from one list, or one set of initial events, until it had to begin anew. Within it
// the watcher resumed after breaks from the last revision it knew.
type segment struct {
	// from is the revision that was listed at; 0: initial events come first.
	from  int64
	items []item
	// complete: the watcher followed it to the end of the run.
	complete bool
}

// item is one event or bookmark.
type item struct {
	event
	// bookmark: only rv counts. initialEnd marks the end of the initial events.
	bookmark, initialEnd bool
	// resumed: the first since a break; on says where.
	resumed bool
	on      string
}

// stream is all that one watcher saw.
type stream struct {
	name     string
	selector selector
	segments []*segment
	resumes  int
}

// findings is what validators found.
type findings struct {
	events, bookmarks int
	// whole counts the revisions of several events that came with all of them, broken those that a break cut short.
	whole, broken  int
	lost, repeated []string
	// disorder: revisions that do not increase. filter: events that are none of the watch's, or not as they should
	// be. bookmark: those that say what is not so.
	disorder, filter, bookmark []string
}

func (f *findings) add(g findings) {
	f.events += g.events
	f.bookmarks += g.bookmarks
	f.whole += g.whole
	f.broken += g.broken
	f.lost = append(f.lost, g.lost...)
	f.repeated = append(f.repeated, g.repeated...)
	f.disorder = append(f.disorder, g.disorder...)
	f.filter = append(f.filter, g.filter...)
	f.bookmark = append(f.bookmark, g.bookmark...)
}

func (f *findings) all() []string {
	var out []string
	for _, c := range []struct {
		name string
		list []string
	}{{"lost", f.lost}, {"repeated", f.repeated}, {"out of order", f.disorder}, {"filter", f.filter}, {"bookmark", f.bookmark}} {
		for _, text := range c.list {
			out = append(out, c.name+": "+text)
		}
	}
	return out
}

// check validates a stream against what happened up to revision end.
func (s *stream) check(history *revisions, end int64) findings {
	var f findings
	for i, g := range s.segments {
		v := &validator{where: fmt.Sprintf("watch %s segment %d", s.name, i), selector: s.selector, history: history}
		v.run(g, end)
		f.add(v.findings)
	}
	return f
}

// validator walks one segment.
type validator struct {
	findings
	where    string
	selector selector
	history  *revisions

	want []event
	// index of want, next is the first that has not come, skipped are those jumped over.
	index   map[place]int
	next    int
	skipped map[place]bool
	came    map[place]bool
	last    int64
	mark    int64
	// end is up to where all that happened is known. What comes after it, such as an object whose time is over, may be
	// told before it is recorded.
	end int64
}

// place is what an event is known by: the deletions of a lease share their revision.
type place struct {
	rv  int64
	key string
}

func (e *event) place() place { return place{e.rv, e.key} }

func (v *validator) say(list *[]string, format string, args ...any) {
	*list = append(*list, v.where+": "+fmt.Sprintf(format, args...))
}

func (v *validator) run(g *segment, end int64) {
	items := g.items
	from := g.from
	if from == 0 {
		var ok bool
		if from, items, ok = v.initial(items); !ok {
			return // broken before the end of the initial events: it began anew
		}
	}
	v.want = v.history.events(v.selector, from)
	v.index = make(map[place]int, len(v.want))
	for i := range v.want {
		v.index[v.want[i].place()] = i
	}
	v.skipped, v.came = map[place]bool{}, map[place]bool{}
	v.last, v.mark, v.end = from, 0, end
	for i := range items {
		if items[i].resumed {
			v.resume()
		}
		if items[i].bookmark {
			v.take(items[i].rv)
		} else {
			v.see(&items[i])
		}
	}
	if g.complete {
		for ; v.next < len(v.want) && v.want[v.next].rv <= end; v.next++ {
			v.skipped[v.want[v.next].place()] = true
		}
	}
	for at := range v.skipped {
		v.say(&v.lost, "%+v", v.want[v.index[at]])
	}
	v.count()
}

// count counts the revisions of several events that came whole.
func (v *validator) count() {
	for i := 0; i < len(v.want); {
		n, all := i, true
		for ; n < len(v.want) && v.want[n].rv == v.want[i].rv; n++ {
			all = all && v.came[v.want[n].place()]
		}
		if all && n-i > 1 {
			v.whole++
		}
		i = n
	}
}

// resume forgives what a break may cost: a revision is all that a watch resumes from, so that who breaks off between
// the events of one does not get the rest. Those before the last that came are not among them.
func (v *validator) resume() {
	from := v.next // with the revision last only where an event of it has come: a bookmark goes on behind all of them
	for v.next < len(v.want) && v.want[v.next].rv == v.last {
		v.next++
	}
	if v.next > from {
		v.broken++
	}
}

// initial checks the initial events and returns their revision and what comes after.
func (v *validator) initial(items []item) (from int64, rest []item, ok bool) {
	end := slices.IndexFunc(items, func(i item) bool { return i.initialEnd })
	if end < 0 {
		return 0, nil, false
	}
	from = items[end].rv
	state := map[string]object{}
	for i := range items[:end] {
		it := &items[i]
		if it.bookmark {
			continue
		}
		v.events++
		if _, known := state[it.key]; known && it.kind == "ADDED" {
			v.say(&v.repeated, "initial event of %s", it.key)
		}
		if it.kind == "DELETED" {
			delete(state, it.key)
		} else {
			state[it.key] = it.object
		}
	}
	if d := difference(state, selected(v.history.cursor().to(from), v.selector)); d != "" {
		v.say(&v.filter, "initial events at %d: %s", from, d)
	}
	return from, items[end+1:], true
}

// take checks a bookmark.
func (v *validator) take(rv int64) {
	v.bookmarks++
	if rv < v.last {
		v.say(&v.bookmark, "bookmark %d after revision %d", rv, v.last)
	}
	for ; v.next < len(v.want) && v.want[v.next].rv <= rv; v.next++ {
		v.skipped[v.want[v.next].place()] = true
		v.say(&v.bookmark, "bookmark %d hides %+v", rv, v.want[v.next])
	}
	v.mark = max(v.mark, rv)
	v.last = max(v.last, rv)
}

// see checks an event.
func (v *validator) see(it *item) {
	v.events++
	at := it.place()
	i, known := v.index[at]
	switch {
	case v.came[at]:
		v.say(&v.repeated, "%+v resumed=%v on %s", it.event, it.resumed, it.on)
		return
	case !known && it.rv > v.end:
		return
	case !known:
		if it.rv <= v.last {
			v.say(&v.repeated, "from before its start or of another: %+v after %d, resumed=%v on %s", it.event, v.last, it.resumed, it.on)
		} else {
			v.say(&v.filter, "%+v is not to be told", it.event)
		}
		return
	case v.want[i] != it.event:
		v.say(&v.filter, "%+v, want %+v", it.event, v.want[i])
	}
	v.came[at] = true
	if it.rv <= v.mark {
		v.say(&v.bookmark, "%+v after bookmark %d", it.event, v.mark)
	}
	// The events of one revision are in etcd's order too.
	if it.rv < v.last || i < v.next {
		v.say(&v.disorder, "%+v after revision %d", it.event, v.last)
	}
	v.last = max(v.last, it.rv)
	if v.skipped[at] {
		delete(v.skipped, at) // late, not lost
		return
	}
	for ; v.next < i; v.next++ {
		v.skipped[v.want[v.next].place()] = true
	}
	v.next = max(v.next, i+1)
}
