package torture_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the state of one object. A rv of 0, or an empty uid, of one that is there is not known: nobody was
// told what an unknown outcome made.
type register struct {
	there      bool
	value, uid string
	rv         int64
	// floor is a revision that later ones are above.
	floor int64
}

// is reports whether an answer can be about the register, and what is known after it.
func (r register) is(got object) (register, bool) {
	if !r.there || r.value != got.value || r.rv != 0 && r.rv != got.rv || r.uid != "" && r.uid != got.uid || got.rv < r.floor {
		return r, false
	}
	r.rv, r.uid, r.floor = got.rv, got.uid, max(r.floor, got.rv)
	return r, true
}

// meets reports whether preconditions can be met, and whether they can fail.
func (r register) meets(o object) (can, cannot bool) {
	can, cannot = true, false
	if o.rv != 0 {
		can = can && (r.rv == 0 || r.rv == o.rv)
		cannot = cannot || r.rv != o.rv
	}
	if o.uid != "" {
		can = can && (r.uid == "" || r.uid == o.uid)
		cannot = cannot || r.uid != o.uid
	}
	return can, cannot
}

// step returns the states that an operation can lead to.
func (r register) step(op *operation) []register {
	if op.outcome == unknown {
		return r.maybe(op)
	}
	same := func(ok bool) []register {
		if ok {
			return []register{r}
		}
		return nil
	}
	can, cannot := r.meets(op.object)
	switch op.outcome {
	case missing:
		return same(!r.there && op.kind != create && !op.creates)
	case exists:
		return same(r.there && op.kind == create)
	case conflict:
		return same(r.there && cannot && (op.kind == update || op.kind == remove))
	case done:
	default:
		return nil
	}
	switch op.kind {
	case get:
		if now, ok := r.is(op.got); ok {
			return []register{now}
		}
		return nil
	case remove:
		if r.there && can {
			return []register{{floor: max(r.floor, r.rv)}}
		}
		return nil
	case create:
		if r.there {
			return nil
		}
	default:
		if r.there && !can || !r.there && !op.creates {
			return nil
		}
	}
	if op.got.value != op.value || op.got.rv <= r.floor || op.kind != create && r.uid != "" && r.uid != op.got.uid {
		return nil
	}
	return []register{{there: true, value: op.value, uid: op.got.uid, rv: op.got.rv, floor: op.got.rv}}
}

// maybe returns the states after an operation that may have happened.
func (r register) maybe(op *operation) []register {
	states := []register{r}
	can, _ := r.meets(op.object)
	switch {
	case (op.kind == create || op.creates) && !r.there:
		states = append(states, register{there: true, value: op.value, floor: r.floor})
	case (op.kind == update || op.kind == patch) && r.there && can:
		states = append(states, register{there: true, value: op.value, uid: r.uid, floor: max(r.floor, r.rv)})
	case op.kind == remove && r.there && can:
		states = append(states, register{floor: max(r.floor, r.rv)})
	}
	return states
}

// model of one object.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{register{}} },
		Step: func(state, input, _ any) []any {
			var out []any
			for _, next := range state.(register).step(input.(*operation)) {
				out = append(out, next)
			}
			return out
		},
		DescribeOperation: func(input, _ any) string { return input.(*operation).String() },
	}
	return m.ToModel()
}

// checkTime bounds the check of one key's history.
const checkTime = 30 * time.Second

// linearizable returns, for each key whose history is not linearizable, what is known of it. life is how long an object
// is kept, 0: for ever.
func linearizable(ops []*operation, history *revisions, life time.Duration) (keys int, wrong []string) {
	byKey := map[string][]*operation{}
	for _, op := range ops {
		byKey[op.key] = append(byKey[op.key], op)
	}
	known := history.effects()
	expired := expiries(ops, history, life)
	names := make([]string, 0, len(byKey))
	for key := range byKey {
		names = append(names, key)
	}
	slices.Sort(names)
	m := model()
	for _, key := range names {
		ops := resolve(byKey[key], known[key])
		for _, op := range expired[key] {
			ops = append(ops, porcupine.Operation{ClientId: op.client, Input: op, Call: op.call, Return: op.end})
		}
		if result := porcupine.CheckOperationsTimeout(m, ops, checkTime); result != porcupine.Ok {
			wrong = append(wrong, describe(key, result, ops, history))
		}
	}
	return len(names), wrong
}

// effects is what is known of one key's writes: when each value was seen, and when deletions were.
type effects struct {
	values    map[string]revision
	deletions []revision
}

func (r *revisions) effects() map[string]*effects {
	out := map[string]*effects{}
	for _, c := range r.list {
		e := out[c.key]
		if e == nil {
			e = &effects{values: map[string]revision{}}
			out[c.key] = e
		}
		if c.now == nil {
			e.deletions = append(e.deletions, c)
		} else {
			e.values[c.now.value] = c
		}
	}
	return out
}

// resolve turns operations into porcupine's. Without what etcd tells, each unknown outcome could happen at any later
// time, and the check would take too long: one whose effect etcd never saw did not happen, one whose effect it saw
// did before that.
func resolve(ops []*operation, known *effects) []porcupine.Operation {
	if known == nil {
		known = &effects{}
	}
	deleted, last := 0, int64(math.MaxInt64)
	for _, op := range ops {
		if op.kind == remove && op.outcome == done {
			deleted++
		}
	}
	if n := len(known.deletions); n > 0 {
		last = known.deletions[n-1].seen
	}
	var out []porcupine.Operation
	for _, op := range ops {
		end := op.end
		switch {
		case op.outcome == refused || op.outcome == odd || op.kind == get && op.outcome == unknown:
			continue
		case op.outcome == unknown && op.kind == remove:
			if deleted >= len(known.deletions) || last < op.call {
				continue
			}
			end = last
		case op.outcome == unknown:
			seen, ok := known.values[op.value]
			if !ok {
				continue
			}
			end = max(seen.seen, op.call)
		}
		out = append(out, porcupine.Operation{ClientId: op.client, Input: op, Call: op.call, Return: end})
	}
	return out
}

func describe(key string, result porcupine.CheckResult, ops []porcupine.Operation, history *revisions) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", key, map[porcupine.CheckResult]string{porcupine.Illegal: "not linearizable", porcupine.Unknown: "not decided in time"}[result])
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, op := range ops {
		fmt.Fprintf(&b, "  %s\n", op.Input.(*operation))
	}
	for i := range history.list {
		if c := &history.list[i]; c.key == key {
			value := "(deleted)"
			if c.now != nil {
				value = c.now.value
			}
			fmt.Fprintf(&b, "  etcd at %d: rv=%d %s\n", c.seen/1000, c.rv, value)
		}
	}
	return b.String()
}
