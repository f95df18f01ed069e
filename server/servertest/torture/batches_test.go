package torture_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ended is a history in which a lease takes a, b and c at 20, and d goes on.
func ended(t *testing.T) *revisions {
	t.Helper()
	h := &revisions{from: 10, base: map[string]object{}, batches: true}
	var made []object
	for i, key := range []string{"a", "b", "c", "d"} {
		o := object{key: key, value: "v" + key, side: []string{"left", "right"}[i%2], uid: "u" + key, rv: int64(11 + i)}
		made = append(made, o)
		if err := h.add(revision{rv: o.rv, key: key, now: &made[i], seen: int64(time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	made = slices.Clone(made)
	for i := range made[:3] {
		if err := h.add(revision{rv: 20, key: made[i].key, before: &made[i], seen: int64(4 * time.Second)}); err != nil {
			t.Fatal(err)
		}
	}
	last := object{key: "d", value: "last", side: "left", uid: "ud", rv: 21}
	if err := h.add(revision{rv: 21, key: "d", now: &last, before: &made[3], seen: int64(5 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRevisionsShared(t *testing.T) {
	o := &object{}
	tests := []struct {
		name    string
		batches bool
		list    []revision
		bad     bool
	}{
		{"deletions of one lease", true, []revision{{rv: 3, key: "a"}, {rv: 3, key: "b"}, {rv: 3, key: "c"}}, false},
		{"where there are no leases", false, []revision{{rv: 3, key: "a"}, {rv: 3, key: "b"}}, true},
		{"two writes", true, []revision{{rv: 3, key: "a", now: o}, {rv: 3, key: "b", now: o}}, true},
		{"a deletion with a write", true, []revision{{rv: 3, key: "a", now: o}, {rv: 3, key: "b"}}, true},
		{"a write with a deletion", true, []revision{{rv: 3, key: "a"}, {rv: 3, key: "b", now: o}}, true},
		{"one deletion twice", true, []revision{{rv: 3, key: "a"}, {rv: 3, key: "b"}, {rv: 3, key: "a"}}, true},
		{"an old one", true, []revision{{rv: 3, key: "a"}, {rv: 2, key: "b"}}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := &revisions{from: 1, batches: tc.batches}
			var err error
			for _, c := range tc.list {
				if e := h.add(c); e != nil {
					err = e
				}
			}
			if (err != nil) != tc.bad {
				t.Errorf("%v, bad is %v", err, tc.bad)
			}
		})
	}
	h := ended(t)
	if n := h.shared(); n != 1 {
		t.Errorf("%d revisions are shared, want one", n)
	}
	if state := h.cursor().to(20); len(state) != 1 || state["d"].rv != 14 {
		t.Errorf("at 20 there are %v, want d", state)
	}
}

// TestBatchValidator: what a lease takes at one revision is told to the last. Only who breaks off between may miss what
// is behind what it has got.
func TestBatchValidator(t *testing.T) {
	h := ended(t)
	// The events are a, b, c, d, the ends of a, b, c, and the change of d.
	drop := func(n ...int) func([]item) []item {
		return func(items []item) []item {
			var out []item
			for i, it := range items {
				if !slices.Contains(n, i) {
					out = append(out, it)
				}
			}
			return out
		}
	}
	resumed := func(key string, what func([]item) []item) func([]item) []item {
		return func(items []item) []item {
			items = what(items)
			for i := range items {
				items[i].resumed = items[i].key == key && items[i].rv >= 20
			}
			return items
		}
	}
	tests := []struct {
		name          string
		spoil         func([]item) []item
		whole, broken int
		want          func(findings) bool // nil: nothing is wrong
	}{
		{"whole", drop(), 1, 0, nil},
		{"a break behind it", resumed("d", drop()), 1, 0, nil},
		{"a break within it", resumed("d", drop(6)), 0, 1, nil},
		{"a break behind its first", resumed("d", drop(5, 6)), 0, 1, nil},
		{"one is missing", drop(5), 0, 0, func(f findings) bool { return len(f.lost) == 1 }},
		{"the last is missing", drop(6), 0, 0, func(f findings) bool { return len(f.lost) == 1 }},
		{"all are missing", drop(4, 5, 6), 0, 0, func(f findings) bool { return len(f.lost) == 3 }},
		{"a break, and one before it is missing", resumed("d", drop(5)), 0, 0, func(f findings) bool { return len(f.lost) == 1 }},
		{"a break, and the first is missing", resumed("d", drop(4, 6)), 0, 1, func(f findings) bool { return len(f.lost) == 1 }},
		{"a break before it, and all are missing", resumed("d", drop(4, 5, 6)), 0, 0, func(f findings) bool { return len(f.lost) == 3 }},
		{"a break within it, and what follows is missing too", resumed("d", drop(6, 7)), 0, 0, func(f findings) bool { return len(f.lost) == 2 }},
		{"told after the break that it was behind", resumed("c", drop()), 1, 1, func(f findings) bool { return len(f.disorder) == 1 }},
		{"one twice", func(i []item) []item { return slices.Insert(i, 6, i[4]) }, 1, 0, func(f findings) bool { return len(f.repeated) == 1 }},
		{"another order", func(i []item) []item { i[4], i[5] = i[5], i[4]; return i }, 1, 0, func(f findings) bool { return len(f.disorder) == 1 }},
		{"a bookmark within it", func(i []item) []item { return slices.Insert(i, 5, bookmark(20)) }, 1, 0, func(f findings) bool { return len(f.bookmark) == 4 }},
		{"a bookmark hides the rest", func(i []item) []item { return slices.Insert(drop(6)(i), 6, bookmark(20)) }, 0, 0,
			func(f findings) bool { return len(f.bookmark) == 1 && len(f.lost) == 1 }},
		{"a break at such a bookmark", func(i []item) []item { return slices.Insert(resumed("d", drop(6))(i), 6, bookmark(20)) }, 0, 0,
			func(f findings) bool { return len(f.bookmark) == 1 && len(f.lost) == 1 }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := &segment{from: 10, items: tc.spoil(seen(h, selector{}, 10)), complete: true}
			s := &stream{name: "w", segments: []*segment{g}}
			f := s.check(h, 21)
			if found := f.all(); tc.want == nil && len(found) > 0 || tc.want != nil && !tc.want(f) {
				t.Errorf("found %s", strings.Join(found, "\n"))
			}
			if f.whole != tc.whole || f.broken != tc.broken {
				t.Errorf("%d whole and %d broken, want %d and %d", f.whole, f.broken, tc.whole, tc.broken)
			}
		})
	}
	// Of another selection the revision is one event, or two.
	left := &segment{from: 10, items: seen(h, selector{side: "left"}, 10), complete: true}
	s := &stream{selector: selector{side: "left"}, segments: []*segment{left}}
	if f := s.check(h, 21); len(f.all()) > 0 || f.whole != 1 {
		t.Errorf("%d whole, found %q", f.whole, f.all())
	}
}

// TestExpiryValidators: an object goes when its time is over, and neither before nor long after.
func TestExpiryValidators(t *testing.T) {
	const second = int64(time.Second)
	life := objectLife
	o := object{key: "a", value: "v", side: "left", uid: "u", rv: 11}
	history := func(gone int64) *revisions {
		h := &revisions{from: 10, batches: true}
		for _, c := range []revision{
			{rv: 11, key: "a", now: &o, seen: second},
			{rv: 12, key: "a", before: &o, seen: gone},
			{rv: 13, key: "z", now: &object{key: "z", value: "z", rv: 13}, seen: gone + second},
		} {
			if err := h.add(c); err != nil {
				t.Fatal(err)
			}
		}
		return h
	}
	made := &operation{kind: create, object: object{key: "a", value: "v", side: "left"}, call: second - 5, end: second + 5, got: o}
	other := &operation{kind: create, object: object{key: "z", value: "z"}, call: second, end: 100 * second, got: object{key: "z", value: "z", rv: 13}}
	read := func(at int64, o outcome) *operation {
		op := &operation{kind: get, object: object{key: "a"}, call: at, end: at + 5, outcome: o}
		if o == done {
			op.got = made.got
		}
		return op
	}
	removed := &operation{kind: remove, object: object{key: "a"}, call: 2*second - 5, end: 2*second + 5}
	tests := []struct {
		name                      string
		gone                      int64
		ops                       []*operation
		foreign, illegal, outlive bool
	}{
		{name: "in time", gone: 4 * second, ops: []*operation{read(2*second, done), read(5*second, missing)}},
		{name: "read until it is gone", gone: 4 * second, ops: []*operation{read(4*second-10, done), read(4*second+1, missing)}},
		{name: "missing before its time", gone: 4 * second, ops: []*operation{read(2*second, missing)}, illegal: true},
		{name: "read when it is gone", gone: 4 * second, ops: []*operation{read(4*second+1, done)}, illegal: true},
		{name: "read again", gone: 4 * second, ops: []*operation{read(3*second+10, missing), read(3*second+20, done)}, illegal: true},
		{name: "too early", gone: 2 * second, foreign: true},
		{name: "too early, as told to readers", gone: 2 * second, ops: []*operation{read(3*second, missing)}, foreign: true, illegal: true},
		{name: "deleted by a client", gone: 2 * second, ops: []*operation{removed, read(3*second, missing)}},
		{name: "late", gone: 10 * second},
		{name: "far too late", gone: 20 * second, outlive: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			h := history(tc.gone)
			ops := append([]*operation{made, other}, tc.ops...)
			if foreign := foreignWrites(ops, h, life); (len(foreign) > 0) != tc.foreign {
				t.Errorf("foreign %q, want %v", foreign, tc.foreign)
			}
			if _, illegal := linearizable(ops, h, life); (len(illegal) > 0) != tc.illegal {
				t.Errorf("not linearizable %q, want %v", illegal, tc.illegal)
			}
			if wrong := outlived(h, life); (len(wrong) > 0) != tc.outlive {
				t.Errorf("outlived %q, want %v", wrong, tc.outlive)
			}
		})
	}
	h := history(4 * second)
	if foreign := foreignWrites([]*operation{made, other}, h, 0); len(foreign) != 1 {
		t.Errorf("without leases %q, want a deletion that nobody asked for", foreign)
	}
	h.list = h.list[:1]
	h.list = append(h.list, revision{rv: 13, key: "z", now: &object{key: "z", value: "z", rv: 13}, seen: 30 * second})
	if wrong := outlived(h, life); len(wrong) != 1 {
		t.Errorf("never gone: %q", wrong)
	}
}

// TestUpdateCreates: an update of an Event that is gone makes it again, and one of a ConfigMap does not.
func TestUpdateCreates(t *testing.T) {
	gone := register{floor: 20}
	op := &operation{kind: update, object: object{key: "a", value: "v", rv: 15}, got: object{key: "a", value: "v", uid: "u2", rv: 25}}
	if got := gone.step(op); len(got) != 0 {
		t.Errorf("a ConfigMap that is gone is updated: %+v", got)
	}
	op.creates = true
	if got := gone.step(op); len(got) != 1 || !got[0].there || got[0].uid != "u2" {
		t.Errorf("an Event that is gone: %+v, want a new one", got)
	}
	op.outcome = missing
	if got := gone.step(op); len(got) != 0 {
		t.Errorf("not found: %+v", got)
	}
	op.outcome = unknown
	if got := gone.step(op); len(got) != 2 {
		t.Errorf("unknown: %+v, want both", got)
	}
}

// TestExpiries: what only the end of a lease can have deleted, it has.
func TestExpiries(t *testing.T) {
	const second = int64(time.Second)
	first, again, b := object{key: "a", value: "v1", rv: 11}, object{key: "a", value: "v2", rv: 13}, object{key: "b", value: "v", rv: 14}
	write := func(o object, call int64) *operation {
		return &operation{kind: create, object: object{key: o.key, value: o.value}, call: call, end: call + 5, got: o}
	}
	remove := &operation{kind: remove, object: object{key: "a"}, call: second, end: 9 * second, outcome: unknown}
	ops := []*operation{write(first, 0), write(again, 2*second), write(b, 2*second), remove}
	tests := []struct {
		name  string
		early bool  // the first deletion is before its time
		rv    int64 // of the deletion of b; that of a is at 15
		want  outcome
	}{
		{"the client may have done one of two", false, 16, unknown},
		{"the client has done the first", true, 16, done},
		{"it goes with another", false, 15, done},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			gone := 3 * second
			if tc.early {
				gone = second + second/2
			}
			h := &revisions{from: 10, batches: true, list: []revision{
				{rv: 11, key: "a", now: &first, seen: 10}, {rv: 12, key: "a", before: &first, seen: gone},
				{rv: 13, key: "a", now: &again, seen: 2*second + 10}, {rv: 14, key: "b", now: &b, seen: 2*second + 10},
				{rv: 15, key: "a", before: &again, seen: 5 * second}, {rv: tc.rv, key: "b", before: &b, seen: 5 * second},
			}}
			got := expiries(ops, h, objectLife)
			a := got["a"]
			if len(a) == 0 || a[len(a)-1].outcome != tc.want || tc.early != (len(a) == 1) {
				t.Errorf("got %v, want that the last is %s", a, tc.want)
			}
			if len(got["b"]) != 1 || got["b"][0].outcome != done {
				t.Errorf("b, which no client deletes: %v, want done", got["b"])
			}
		})
	}
}
