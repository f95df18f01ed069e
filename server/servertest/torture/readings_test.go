package torture_test

import (
	"fmt"
	"slices"
)

// age is how old what a reader asks for may be.
type age uint8

const (
	// current: as of now at least, the answer to a request without a resourceVersion.
	current age = iota
	// anyAge: resourceVersion 0.
	anyAge
	// atLeast: a resourceVersion that the answer must not be older than.
	atLeast
	// exactly: the state at a resourceVersion and no other.
	exactly
)

func (a age) String() string {
	return [...]string{"current", "of any age", "not older than", "exactly at"}[a]
}

// The kinds of reads that each scenario needs successes of, beside those of what is current.
const (
	listsAnyAge  = "lists of any age"
	listsAtLeast = "lists not older than a revision"
	listsExactly = "lists at a revision"
	pagesExactly = "pages at a revision"
	getsAnyAge   = "gets of any age"
	getsAtLeast  = "gets not older than a revision"
)

var readKinds = []string{listsAnyAge, listsAtLeast, listsExactly, pagesExactly, getsAnyAge, getsAtLeast}

// reading is what a get with a resourceVersion was answered.
type reading struct {
	key string
	// least is the revision that the answer must not be older than; 0: any age.
	least int64
	// there: got is the object; else it was not found.
	there bool
	got   object
	on    string
}

// readings are checked against what happened to each object.
type readings map[string][]revision

func newReadings(history *revisions) readings {
	r := readings{}
	for _, c := range history.list {
		r[c.key] = append(r[c.key], c)
	}
	return r
}

// check says what is wrong with a reading, "" when nothing is. No object was there before the history began.
func (r readings) check(g *reading) string {
	changes := r[g.key]
	// An answer holds until the change after it.
	holds := func(next int) bool { return next == len(changes) || changes[next].rv > g.least }
	if g.there {
		i := slices.IndexFunc(changes, func(c revision) bool { return c.rv == g.got.rv })
		switch {
		case i < 0 || changes[i].now == nil || *changes[i].now != g.got:
			return fmt.Sprintf("%+v never was", g.got)
		case !holds(i + 1):
			return fmt.Sprintf("stale: %+v was until %d, and %d was asked for", g.got, changes[i+1].rv, g.least)
		}
		return ""
	}
	if holds(0) {
		return ""
	}
	for i := range changes {
		if changes[i].now == nil && holds(i+1) {
			return ""
		}
	}
	return fmt.Sprintf("%s is not found, and was there at %d and ever since", g.key, g.least)
}
