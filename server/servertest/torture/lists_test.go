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
	// floor is a revision acknowledged before the list began, 0 where none counts.
	floor int64
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

// check returns the lists that do not give what was there at their revision.
func (l *lists) check(history *revisions) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.parts, func(a, b *part) int { return cmp.Compare(a.rv, b.rv) })
	at := history.cursor()
	for _, p := range l.parts {
		if text := p.check(at.to(p.rv)); text != "" {
			wrong = append(wrong, fmt.Sprintf("list at %d of (%q, %q] with %s on %s: %s", p.rv, p.after, p.upTo, p.selector, p.on, text))
		}
	}
	return append(wrong, l.odd...)
}

func (p *part) check(state map[string]object) string {
	if p.rv < p.floor {
		return fmt.Sprintf("stale: revision %d was acknowledged before it began", p.floor)
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
