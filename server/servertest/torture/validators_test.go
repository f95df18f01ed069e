package torture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// told is a history of four objects: created, changed from side to side, deleted, created again.
func told(t *testing.T) *revisions {
	t.Helper()
	h := &revisions{from: 10, base: map[string]object{}}
	state := map[string]object{}
	put := func(rv int64, key, side string) {
		o := object{key: key, value: fmt.Sprintf("v%d", rv), side: side, uid: "u" + key, rv: rv}
		c := revision{rv: rv, key: key, now: &o, seen: rv*10 + 5}
		if before, ok := state[key]; ok {
			c.before = &before
		}
		state[key] = o
		if err := h.add(c); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(rv int64, key string) {
		before := state[key]
		delete(state, key)
		if err := h.add(revision{rv: rv, key: key, before: &before, seen: rv*10 + 5}); err != nil {
			t.Fatal(err)
		}
	}
	put(11, "a", "left")
	put(12, "b", "right")
	put(15, "a", "right")
	put(16, "c", "left")
	put(17, "b", "left")
	drop(20, "b")
	put(21, "a", "left")
	put(22, "b", "right")
	return h
}

// seen is what a good watch with a selector sees from a revision on.
func seen(h *revisions, s selector, after int64) []item {
	var items []item
	for _, e := range h.events(s, after) {
		items = append(items, item{event: e})
	}
	return items
}

func bookmark(rv int64) item {
	return item{event: event{kind: "BOOKMARK", object: object{rv: rv}}, bookmark: true}
}

func TestStreamValidators(t *testing.T) {
	h := told(t)
	all, left := selector{}, selector{side: "left"}
	find := func(items []item, rv int64) int {
		return slices.IndexFunc(items, func(i item) bool { return i.rv == rv })
	}
	tests := []struct {
		name     string
		selector selector
		spoil    func([]item) []item
		// open: the watcher did not come to the end of the run.
		open bool
		want func(findings) bool
	}{
		{"good", all, func(i []item) []item { return i }, false, nil},
		{"good with selector", left, func(i []item) []item { return i }, false, nil},
		{"good with bookmarks", all, func(i []item) []item { return append(slices.Insert(i, 5, bookmark(18)), bookmark(22)) }, false, nil},
		{"ended early with 410", all, func(i []item) []item { return i[:3] }, true, nil},
		{"event dropped", all, func(i []item) []item { at := find(i, 16); return slices.Delete(i, at, at+1) }, false,
			func(f findings) bool { return len(f.lost) == 1 && len(f.repeated)+len(f.disorder) == 0 }},
		{"last event dropped", all, func(i []item) []item { return i[:len(i)-1] }, false,
			func(f findings) bool { return len(f.lost) == 1 }},
		{"pair swapped", all, func(i []item) []item { i[3], i[4] = i[4], i[3]; return i }, false,
			func(f findings) bool { return len(f.disorder) == 1 && len(f.lost)+len(f.repeated) == 0 }},
		{"event repeated", all, func(i []item) []item { return slices.Insert(i, 5, i[3]) }, false,
			func(f findings) bool { return len(f.repeated) == 1 && len(f.lost) == 0 }},
		{"event from before the start", all, func(i []item) []item {
			old := i[0]
			old.rv = 9
			return slices.Insert(i, 0, old)
		}, false, func(f findings) bool { return len(f.repeated) == 1 }},
		{"object of another selector", left, func(i []item) []item {
			return slices.Insert(i, 1, item{event: event{"ADDED", object{key: "b", value: "v12", side: "right", uid: "ub", rv: 12}}})
		}, false, func(f findings) bool { return len(f.filter) == 1 }},
		{"leaving is not told", left, func(i []item) []item { at := find(i, 15); return slices.Delete(i, at, at+1) }, false,
			func(f findings) bool { return len(f.lost) == 1 }},
		{"leaving is told as a change", left, func(i []item) []item { i[find(i, 15)].kind = "MODIFIED"; return i }, false,
			func(f findings) bool { return len(f.filter) == 1 }},
		{"deletion with the revision of the object", all, func(i []item) []item { i[find(i, 20)].rv = 17; return i }, false,
			func(f findings) bool { return len(f.repeated) == 1 && len(f.lost) == 1 }},
		{"value of another revision", all, func(i []item) []item { i[find(i, 15)].value = "v11"; return i }, false,
			func(f findings) bool { return len(f.filter) == 1 }},
		{"bookmark that hides an event", all, func(i []item) []item { return slices.Insert(i, 3, bookmark(16)) }, false,
			func(f findings) bool { return len(f.bookmark) == 2 }},
		{"bookmark that goes back", all, func(i []item) []item { return slices.Insert(i, 5, bookmark(12)) }, false,
			func(f findings) bool { return len(f.bookmark) == 1 }},
		{"resumed from a bookmark with a loss", all, func(i []item) []item { return append(i[:2:2], append([]item{bookmark(15)}, i[3:]...)...) }, false,
			func(f findings) bool { return len(f.bookmark) == 1 && len(f.lost) == 1 }},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			g := &segment{from: 10, items: tc.spoil(seen(h, tc.selector, 10)), complete: !tc.open}
			s := &stream{name: "w", selector: tc.selector, segments: []*segment{g}}
			f := s.check(h, 22)
			if found := f.all(); tc.want == nil && len(found) > 0 || tc.want != nil && !tc.want(f) {
				t.Errorf("found %s", strings.Join(found, "\n"))
			}
		})
	}
}

func TestInitialEventsValidator(t *testing.T) {
	h := told(t)
	at := func(keys ...string) []item {
		state := h.cursor().to(17)
		var items []item
		for _, key := range keys {
			items = append(items, item{event: event{"ADDED", state[key]}})
		}
		end := bookmark(17)
		end.initialEnd = true
		return append(items, end)
	}
	tests := []struct {
		name  string
		items []item
		bad   bool
	}{
		{"good", append(at("a", "b", "c"), seen(h, selector{}, 17)...), false},
		{"broken before their end", at("a", "b", "c")[:2], false},
		{"object missing", append(at("a", "c"), seen(h, selector{}, 17)...), true},
		{"object twice", append(at("a", "a", "b", "c"), seen(h, selector{}, 17)...), true},
		{"event lost after them", append(at("a", "b", "c"), seen(h, selector{}, 20)...), true},
		{"event repeated after them", append(at("a", "b", "c"), seen(h, selector{}, 16)...), true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := &stream{segments: []*segment{{items: tc.items, complete: true}}}
			f := s.check(h, 22)
			if found := f.all(); (len(found) > 0) != tc.bad {
				t.Errorf("found %q, bad is %v", found, tc.bad)
			}
		})
	}
}

func TestListValidator(t *testing.T) {
	h := told(t)
	items := func(rv int64, keys ...string) (out []object) {
		state := h.cursor().to(rv)
		for _, key := range keys {
			out = append(out, state[key])
		}
		return out
	}
	tests := []struct {
		name string
		part part
		bad  bool
	}{
		{"whole", part{rv: 18, floor: 17, items: items(18, "a", "b", "c"), remaining: -1}, false},
		{"between revisions that are others'", part{rv: 19, items: items(17, "a", "b", "c"), remaining: -1}, false},
		{"page", part{rv: 18, items: items(18, "b"), after: "a", upTo: "b", remaining: 1}, false},
		{"selector", part{rv: 18, selector: selector{side: "left"}, items: items(18, "b", "c"), remaining: -1}, false},
		{"stale", part{rv: 16, floor: 17, items: items(16, "a", "b", "c"), remaining: -1}, true},
		{"older state than it says", part{rv: 18, items: items(16, "a", "b", "c"), remaining: -1}, true},
		{"object missing", part{rv: 18, items: items(18, "a", "c"), remaining: -1}, true},
		{"deleted object", part{rv: 20, items: items(17, "a", "b", "c"), remaining: -1}, true},
		{"page repeats a key", part{rv: 18, items: items(18, "a", "b"), after: "a", remaining: -1}, true},
		{"wrong rest", part{rv: 18, items: items(18, "a"), upTo: "a", remaining: 1}, true},
		{"order", part{rv: 18, items: items(18, "b", "a", "c"), remaining: -1}, true},
		{"of any age, old", part{age: anyAge, rv: 12, items: items(12, "a", "b"), remaining: -1, before: 12}, false},
		{"of any age, goes back", part{age: anyAge, rv: 12, items: items(12, "a", "b"), remaining: -1, before: 15}, true},
		{"of any age, older state than it says", part{age: anyAge, rv: 15, items: items(12, "a", "b"), remaining: -1}, true},
		{"not older", part{age: atLeast, asked: 15, floor: 15, rv: 16, items: items(16, "a", "b", "c"), remaining: -1}, false},
		{"older than it may be", part{age: atLeast, asked: 16, floor: 16, rv: 15, items: items(15, "a", "b"), remaining: -1}, true},
		{"not older in name only", part{age: atLeast, asked: 16, floor: 16, rv: 16, items: items(15, "a", "b"), remaining: -1}, true},
		{"exactly", part{age: exactly, asked: 15, rv: 15, items: items(15, "a", "b"), remaining: -1}, false},
		{"exactly, a page", part{age: exactly, asked: 17, rv: 17, items: items(17, "b"), after: "a", upTo: "b", remaining: 1}, false},
		{"exactly, at a later revision", part{age: exactly, asked: 15, rv: 16, items: items(16, "a", "b", "c"), remaining: -1}, true},
		{"exactly, at a later revision without a change", part{age: exactly, asked: 18, rv: 19, items: items(18, "a", "b", "c"), remaining: -1}, true},
		{"exactly, later state", part{age: exactly, asked: 15, rv: 15, items: items(16, "a", "b", "c"), remaining: -1}, true},
		{"exactly, value of a later revision", part{age: exactly, asked: 15, rv: 15, items: items(17, "a", "b"), remaining: -1}, true},
		{"exactly, an object that comes later", part{age: exactly, asked: 20, rv: 20, items: append(items(20, "a"), items(22, "b", "c")...), remaining: -1}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := &lists{parts: []*part{&tc.part}}
			if wrong := l.check(h, 0); (len(wrong) > 0) != tc.bad {
				t.Errorf("found %q, bad is %v", wrong, tc.bad)
			}
		})
	}
}

func TestSightings(t *testing.T) {
	s := sightings{}
	for i, tc := range []struct {
		server     string
		rv, before int64
	}{{"a", 5, 0}, {"b", 3, 0}, {"a", 4, 5}, {"a", 6, 5}, {"b", 9, 3}, {"a", 7, 6}} {
		if before := s.next(tc.server, tc.rv); before != tc.before {
			t.Errorf("%d: %d before, want %d", i, before, tc.before)
		}
	}
}

// TestGoneValidator: only what was compacted may be too old.
func TestGoneValidator(t *testing.T) {
	tests := []struct {
		name                string
		rv, compacted, aged int64
		bad                 bool
	}{
		{"compacted", 15, 16, 0, false},
		{"compacted by a server", 15, 0, 16, false},
		{"nothing is compacted", 15, 0, 0, true},
		{"not that far", 15, 15, 12, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var l lists
			l.addGone(tc.rv, tc.compacted, "too old")
			if wrong := l.check(told(t), tc.aged); (len(wrong) > 0) != tc.bad {
				t.Errorf("found %q, bad is %v", wrong, tc.bad)
			}
		})
	}
	r := &run{}
	r.expired(anyAge, 0, &gone{})
	r.expired(atLeast, 15, &gone{})
	if wrong := r.lists.check(told(t), 100); len(wrong) != 2 {
		t.Errorf("found %q, want that no other list may be too old", wrong)
	}
}

func TestReadingValidator(t *testing.T) {
	h := told(t)
	at := func(rv int64, key string) object { return h.cursor().to(rv)[key] }
	// a is written at 11, 15 and 21; b at 12 and 17, deleted at 20, and written at 22.
	tests := []struct {
		name    string
		reading reading
		bad     bool
	}{
		{"any age, first state", reading{key: "a", there: true, got: at(11, "a")}, false},
		{"any age, latest state", reading{key: "a", there: true, got: at(22, "a")}, false},
		{"any age, not yet there", reading{key: "a"}, false},
		{"any age, never was", reading{key: "a", there: true, got: object{key: "a", value: "v12", side: "left", uid: "ua", rv: 11}}, true},
		{"any age, revision of another", reading{key: "a", there: true, got: object{key: "a", value: "v12", side: "right", uid: "ua", rv: 12}}, true},
		{"as of then", reading{key: "a", least: 14, there: true, got: at(14, "a")}, false},
		{"newer", reading{key: "a", least: 14, there: true, got: at(15, "a")}, false},
		{"stale", reading{key: "a", least: 15, there: true, got: at(14, "a")}, true},
		{"stale, and the later is of the future", reading{key: "a", least: 30, there: true, got: at(15, "a")}, true},
		{"of the future", reading{key: "a", least: 30, there: true, got: at(21, "a")}, false},
		{"deleted", reading{key: "b", least: 20}, false},
		{"deleted later", reading{key: "b", least: 13}, false},
		{"not found before it was made", reading{key: "c", least: 15}, false},
		{"not found and there", reading{key: "a", least: 11}, true},
		{"not found and there again", reading{key: "b", least: 22}, true},
		{"deleted, stale", reading{key: "b", least: 20, there: true, got: at(17, "b")}, true},
		{"never made", reading{key: "d", least: 30}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var l lists
			l.addReading(&tc.reading)
			if wrong := l.check(h, 0); (len(wrong) > 0) != tc.bad {
				t.Errorf("found %q, bad is %v", wrong, tc.bad)
			}
		})
	}
}

func TestHistoryValidators(t *testing.T) {
	h := told(t)
	at := func(rv int64) object {
		return h.cursor().to(rv)["a"]
	}
	// All is about a: created at 11, changed at 15 and 21.
	made := &operation{kind: create, object: object{key: "a", value: "v11", side: "left"}, call: 100, end: 120, got: at(11)}
	changed := &operation{kind: update, object: object{key: "a", value: "v15", side: "right", rv: 11}, call: 140, end: 160, got: at(15)}
	patched := &operation{kind: patch, object: object{key: "a", value: "v21", side: "left"}, call: 200, end: 220, got: at(21)}
	read := func(call int64, o object) *operation {
		return &operation{kind: get, object: object{key: "a"}, call: call, end: call + 5, got: o}
	}
	with := func(op *operation, what func(*operation)) *operation {
		o := *op
		what(&o)
		return &o
	}
	none := func(op *operation, o outcome) *operation {
		return with(op, func(op *operation) { op.outcome, op.got = o, object{} })
	}
	tests := []struct {
		name                   string
		ops                    []*operation
		lost, foreign, illegal bool
	}{
		{name: "good", ops: []*operation{made, changed, patched, read(125, at(11)), read(170, at(15)), read(230, at(21))}},
		{name: "read during a write", ops: []*operation{made, changed, patched, read(150, at(11)), read(205, at(21))}},
		{name: "unknown write that happened", ops: []*operation{made, none(changed, unknown), patched, read(170, at(15))}},
		{name: "conflict", ops: []*operation{made, changed, patched,
			{kind: update, object: object{key: "a", value: "x", rv: 11}, call: 170, end: 180, outcome: conflict}}},
		{name: "stale read", ops: []*operation{made, changed, patched, read(170, at(11))}, illegal: true},
		{name: "read of what was not yet written", ops: []*operation{made, changed, patched, read(130, at(15))}, illegal: true},
		{name: "missing although it is there", ops: []*operation{made, changed, patched, none(read(170, object{}), missing)}, illegal: true},
		{name: "conflict of its own", ops: []*operation{made, none(changed, conflict), patched, read(170, at(15))}, foreign: true, illegal: true},
		{name: "conflict without a precondition", ops: []*operation{made, changed, patched,
			{kind: patch, object: object{key: "a", value: "x"}, call: 170, end: 180, outcome: conflict}}, illegal: true},
		{name: "two updates of one revision", ops: []*operation{made, changed, patched,
			with(patched, func(op *operation) { op.kind, op.rv = update, 11 })}, illegal: true},
		{name: "lost write", ops: []*operation{made, changed, patched,
			{kind: patch, object: object{key: "a", value: "v18"}, call: 170, end: 180, got: object{key: "a", value: "v18", uid: "ua", rv: 18}}}, lost: true},
		{name: "lost deletion", ops: []*operation{made, changed, patched,
			{kind: remove, object: object{key: "a"}, call: 170, end: 180}}, lost: true, illegal: true},
		{name: "acknowledged with another revision", ops: []*operation{made, with(changed, func(op *operation) { op.got.rv = 14 }), patched, read(170, at(15))},
			lost: true, illegal: true},
		{name: "write that nobody asked for", ops: []*operation{made, patched, read(170, at(15))}, foreign: true, illegal: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			only := &revisions{from: h.from, base: h.base}
			for _, c := range h.list {
				if c.key == "a" {
					only.list = append(only.list, c)
				}
			}
			if lost := lostWrites(tc.ops, only); (len(lost) > 0) != tc.lost {
				t.Errorf("lost %q, want %v", lost, tc.lost)
			}
			if foreign := foreignWrites(tc.ops, only, 0); (len(foreign) > 0) != tc.foreign {
				t.Errorf("foreign %q, want %v", foreign, tc.foreign)
			}
			if _, illegal := linearizable(tc.ops, only, 0); (len(illegal) > 0) != tc.illegal {
				t.Errorf("not linearizable %q, want %v", illegal, tc.illegal)
			}
		})
	}
}
