package torture_test

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// part is what a list gave at one revision: a whole list, or those of its pages that follow each other.
type part struct {
	selector selector
	rv       int64
	// floor is the lowest revision that it may have: one acknowledged before it began, or one that was asked for; 0
	// where none counts.
	floor int64
	// age says what was asked for, and asked at which revision where that counts.
	age   age
	asked int64
	// before is a revision that the same server answered the same client with before, 0 where that does not count.
	before int64
	// after and upTo bound the keys; upTo is "" for all to the end.
	after, upTo string
	items       []object
	// remaining is what the last page said is left, -1 where it said nothing.
	remaining int64
	on        string
}

// lists is what all listers saw.
type lists struct {
	mu    sync.Mutex
	parts []*part // guarded by mu
	// odd are answers that no list may get. guarded by mu
	odd []string
	// expired counts pages answered with 410. guarded by mu
	expired int
	// gone are lists at a revision that were answered with 410. guarded by mu
	gone []tooOld
	// gets are those with a resourceVersion. guarded by mu
	gets []*reading
	// answered counts what succeeded of readKinds. guarded by mu
	answered map[string]int
}

// tooOld is a list at revision rv that was answered with 410, when all before compacted could be gone.
type tooOld struct {
	rv, compacted int64
	said          string
}

func (l *lists) addGone(rv, compacted int64, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = append(l.gone, tooOld{rv, compacted, said})
}

func (l *lists) addReading(g *reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gets = append(l.gets, g)
}

// count notes a success of one of readKinds.
func (l *lists) count(kind string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered == nil {
		l.answered = map[string]int{}
	}
	l.answered[kind]++
}

func (l *lists) add(p *part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts = append(l.parts, p)
}

func (l *lists) addOdd(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.odd = append(l.odd, fmt.Sprintf(format, args...))
}

func (l *lists) addExpired() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expired++
}

// check returns the lists, and the gets with a resourceVersion, that do not give what was there at their revision.
// compacted is up to where etcd's history was compacted by others than the faults.
func (l *lists) check(history *revisions, compacted int64) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.parts, func(a, b *part) int { return cmp.Compare(a.rv, b.rv) })
	at := history.cursor()
	for _, p := range l.parts {
		if text := p.check(at.to(p.rv)); text != "" {
			wrong = append(wrong, fmt.Sprintf("list at %d (%s %d) of (%q, %q] with %s on %s: %s", p.rv, p.age, p.asked, p.after, p.upTo, p.selector, p.on, text))
		}
	}
	for _, g := range l.gone {
		if g.rv >= max(g.compacted, compacted) {
			wrong = append(wrong, fmt.Sprintf("a list at %d is answered with 410, and history is compacted up to %d: %s", g.rv, max(g.compacted, compacted), g.said))
		}
	}
	known := newReadings(history)
	for _, g := range l.gets {
		if text := known.check(g); text != "" {
			wrong = append(wrong, fmt.Sprintf("get of %s not older than %d on %s: %s", g.key, g.least, g.on, text))
		}
	}
	return append(wrong, l.odd...)
}

// take notes what an answer gives.
func (p *part) take(answer *wire) {
	p.rv = answer.revision()
	for i := range answer.Items {
		p.items = append(p.items, answer.Items[i].object())
	}
}

func (p *part) check(state map[string]object) string {
	switch {
	case p.age == exactly && p.rv != p.asked:
		return "it is at another revision than it was asked for"
	case p.rv < p.floor:
		return fmt.Sprintf("stale: revision %d was acknowledged before it began, or asked for", p.floor)
	case p.rv < p.before:
		return fmt.Sprintf("it goes back: the server had answered the client with revision %d", p.before)
	}
	want := map[string]object{}
	left := int64(0)
	for key, o := range selected(state, p.selector) {
		switch {
		case p.upTo != "" && key > p.upTo:
			left++
		case key > p.after:
			want[key] = o
		}
	}
	got := map[string]object{}
	last := p.after
	for _, o := range p.items {
		if o.key <= last && last != "" {
			return fmt.Sprintf("%s after %s", o.key, last)
		}
		last = o.key
		got[o.key] = o
	}
	if d := difference(got, want); d != "" {
		return d
	}
	if p.remaining >= 0 && p.remaining != left {
		return fmt.Sprintf("%d items are said to remain, there are %d", p.remaining, left)
	}
	return ""
}
