package rbac

import (
	"hash/maphash"
	"maps"
)

// tableShards bounds what one change of a table copies: its shard.
const tableShards = 256

// table is an immutable map: a change gives another table, which shares all but one shard with the old one.
type table[K comparable, V any] struct {
	seed   maphash.Seed
	shards *[tableShards]map[K]V // nil: empty
}

func newTable[K comparable, V any](content map[K]V) table[K, V] {
	t := table[K, V]{seed: maphash.MakeSeed(), shards: &[tableShards]map[K]V{}}
	for k, v := range content {
		i := t.shard(k)
		if t.shards[i] == nil {
			t.shards[i] = map[K]V{}
		}
		t.shards[i][k] = v
	}
	return t
}

func (t table[K, V]) shard(k K) uint64 { return maphash.Comparable(t.seed, k) % tableShards }

func (t table[K, V]) get(k K) (V, bool) {
	if t.shards == nil {
		var zero V
		return zero, false
	}
	v, ok := t.shards[t.shard(k)][k]
	return v, ok
}

// with returns the table with v at k.
func (t table[K, V]) with(k K, v V) table[K, V] {
	return t.edit(k, func(shard map[K]V) { shard[k] = v })
}

// without returns the table with nothing at k.
func (t table[K, V]) without(k K) table[K, V] {
	return t.edit(k, func(shard map[K]V) { delete(shard, k) })
}

func (t table[K, V]) edit(k K, change func(shard map[K]V)) table[K, V] {
	if t.shards == nil {
		t = newTable[K, V](nil)
	}
	shards := *t.shards
	i := t.shard(k)
	shard := maps.Clone(shards[i])
	if shard == nil {
		shard = map[K]V{}
	}
	change(shard)
	shards[i] = shard
	return table[K, V]{seed: t.seed, shards: &shards}
}

// all yields everything, in no order.
func (t table[K, V]) all(yield func(K, V) bool) {
	if t.shards == nil {
		return
	}
	for _, shard := range t.shards {
		for k, v := range shard {
			if !yield(k, v) {
				return
			}
		}
	}
}
