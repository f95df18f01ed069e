package torture_test

import (
	"fmt"
	"time"
)

// lateExpiry is how long after its time an object may be there still: etcd begins the time of its leases anew when
// it starts.
const lateExpiry = 15 * time.Second

// expiries returns, for each deletion that the end of a lease may have done, one: not before the object's time, and not
// after etcd told of it. It is done where nobody else can have deleted, and unknown elsewhere.
func expiries(ops []*operation, history *revisions, life time.Duration) map[string][]*operation {
	out := map[string][]*operation{}
	if life == 0 {
		return out
	}
	begun := puts(ops)
	other := map[string]int{} // how many deletions of a key could be others'
	for _, op := range ops {
		if op.kind == remove && (op.outcome == done || op.outcome == unknown) {
			other[op.key]++
		}
	}
	for i := range history.list {
		c := &history.list[i]
		if c.now != nil || c.before == nil {
			continue
		}
		op := begun[written{c.key, c.before.value}]
		if op == nil || c.seen < op.call+int64(life) {
			other[c.key]-- // it is another's
			continue
		}
		gone := &operation{client: -1, kind: remove, object: object{key: c.key}, call: op.call + int64(life), end: c.seen, outcome: unknown}
		if history.isShared(i) {
			gone.outcome = done
		}
		out[c.key] = append(out[c.key], gone)
	}
	for key, of := range out {
		for _, op := range of {
			if other[key] <= 0 {
				op.outcome = done
			}
		}
	}
	return out
}

// written is what a write is known by.
type written struct{ key, value string }

// puts returns the writes that have happened or may have.
func puts(ops []*operation) map[written]*operation {
	out := map[written]*operation{}
	for _, op := range ops {
		if op.kind != get && op.kind != remove && (op.outcome == done || op.outcome == unknown) {
			out[written{op.key, op.value}] = op
		}
	}
	return out
}

// outlived returns the objects that were there long after their time, up to what was seen last.
func outlived(history *revisions, life time.Duration) (wrong []string) {
	if life == 0 || len(history.list) == 0 {
		return nil
	}
	there := map[string]revision{}
	check := func(c revision, until int64) {
		if was := time.Duration(until - c.seen); was > life+lateExpiry {
			wrong = append(wrong, fmt.Sprintf("rv %d: %+v was there for %s, its time is %s", c.rv, *c.now, was, life))
		}
	}
	for _, c := range history.list {
		if before, ok := there[c.key]; ok {
			check(before, c.seen)
			delete(there, c.key)
		}
		if c.now != nil {
			there[c.key] = c
		}
	}
	for _, c := range there {
		check(c, history.list[len(history.list)-1].seen)
	}
	return wrong
}
