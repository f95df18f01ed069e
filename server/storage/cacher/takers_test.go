package cacher

import (
	"math/rand/v2"
	"testing"
)

// TestTakers: those of a group are together, whoever has come and gone.
func TestTakers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all takers
	in := map[*watcher]bool{}
	for range 5000 {
		if len(in) > 0 && random.IntN(100) < 49 {
			for w := range in { // any
				all.remove(w)
				delete(in, w)
				break
			}
		} else {
			w := &watcher{}
			all.add(w, random.Uint64N(7))
			in[w] = true
		}
		left, ended := map[uint64]bool{}, map[*watcher]bool{}
		list := all.append(nil)
		for i, w := range list {
			if !in[w] || ended[w] || left[w.group] {
				t.Fatalf("taker %d of group %d: there %t, again %t, apart %t", i, w.group, in[w], ended[w], left[w.group])
			}
			ended[w] = true
			if i+1 == len(list) || list[i+1].group != w.group {
				left[w.group] = true
			}
		}
		if len(list) != len(in) || all.count != len(in) || len(all.groups) != len(left) || len(all.byName) != len(left) {
			t.Fatalf("%d takers in %d groups, want %d in %d", len(list), len(all.groups), len(in), len(left))
		}
	}
}
