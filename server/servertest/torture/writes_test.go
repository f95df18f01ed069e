package torture_test

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// lostWrites returns the acknowledged writes that etcd does not have at their revision.
func lostWrites(ops []*operation, history *revisions) (lost []string) {
	at := make(map[int64]*revision, len(history.list))
	deletions := map[string]int{}
	for i := range history.list {
		at[history.list[i].rv] = &history.list[i]
		if history.list[i].now == nil {
			deletions[history.list[i].key]++
		}
	}
	for _, op := range ops {
		if !op.acknowledged() {
			continue
		}
		if op.kind == remove {
			if deletions[op.key]--; deletions[op.key] < 0 {
				lost = append(lost, fmt.Sprintf("no deletion for %s", op))
			}
			continue
		}
		if r := at[op.got.rv]; r == nil || r.now == nil || r.key != op.key || r.now.value != op.value || r.now.uid != op.got.uid {
			lost = append(lost, op.String())
		}
	}
	return lost
}

// foreignWrites returns the changes that nobody asked for. life is how long an object is kept, 0: for ever.
func foreignWrites(ops []*operation, history *revisions, life time.Duration) (foreign []string) {
	asked := puts(ops)
	for i := range history.list {
		if c := &history.list[i]; c.now != nil && asked[written{c.key, c.now.value}] == nil {
			foreign = append(foreign, fmt.Sprintf("rv %d: %+v", c.rv, *c.now))
		}
	}
	deletions := map[string]int{}
	for i := range history.list {
		if c := &history.list[i]; c.now == nil {
			deletions[c.key]++
		}
	}
	for key, of := range expiries(ops, history, life) {
		deletions[key] -= len(of)
	}
	for _, op := range ops {
		if op.kind == remove && (op.outcome == done || op.outcome == unknown) {
			deletions[op.key]--
		}
	}
	for _, key := range slices.Sorted(maps.Keys(deletions)) {
		if n := deletions[key]; n > 0 {
			foreign = append(foreign, fmt.Sprintf("%s was deleted %d times more often than it could be", key, n))
		}
	}
	return foreign
}

// oddAnswers returns the answers that no request may get.
func oddAnswers(ops []*operation) (answers []string) {
	for _, op := range ops {
		if op.outcome == odd {
			answers = append(answers, op.String())
		}
	}
	return answers
}
