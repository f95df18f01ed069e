package cacher

import (
	"testing"

	"weir.dev/weir/server/storage"
)

// TestAllocations holds what reads allocate, which does not depend on how many objects there are.
func TestAllocations(t *testing.T) {
	c, _ := benchCacher(t, 2000)
	key := podKey("ns7", "pod7")
	revision := rvString(c.Progress())
	get := func(rv string) func() {
		return func() {
			if _, err := c.Get(t.Context(), key, storage.GetOptions{ResourceVersion: rv}); err != nil {
				t.Fatal(err)
			}
		}
	}
	list := func(rows int, key, rv, label, field string, limit int64) func() {
		opts := selecting(t, rv, label, field)
		opts.Predicate.Limit = limit
		return func() {
			list, err := c.GetList(t.Context(), key, opts)
			if err != nil || len(list.Rows) != rows {
				t.Fatal(len(list.Rows), err)
			}
		}
	}
	tests := []struct {
		name string
		run  func()
		want float64
		// pooled: it uses what is pooled, as the JSON of a continue token.
		pooled bool
	}{
		{name: "get of any age", run: get("0"), want: 0},
		{name: "get at least", run: get(revision), want: 0},
		{name: "get of the most recent", run: get(""), want: 0},
		{name: "list of any age", run: list(2000, testPrefix, "0", "", "", 0), want: 1},
		{name: "list of the most recent", run: list(2000, testPrefix, "", "", "", 0), want: 1},
		{name: "list of a namespace", run: list(40, testPrefix+"ns7/", "", "", "", 0), want: 2},
		{name: "selector that nothing serves", run: list(0, testPrefix, "", "app notin (app0,app1),!app", "", 0), want: 0},
		{name: "selector of none", run: list(0, testPrefix, "", "app=none", "", 0), want: 1},
		// The rows are put into a slice that grows.
		{name: "field selector", run: list(4, testPrefix, "", "", "spec.nodeName=n7", 0), want: 4},
		{name: "label selector", run: list(20, testPrefix, "", "app=app7", "", 0), want: 7},
		{name: "page", run: list(500, testPrefix, "", "", "", 500), want: 7, pooled: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for range indexCost { // after which there is an index, if it is worth one
				tc.run()
			}
			want := tc.want
			if tc.pooled && raceEnabled {
				want++ // sync.Pool then drops one of four, at random
			}
			if got := testing.AllocsPerRun(100, tc.run); got > want {
				t.Errorf("%v allocations, want at most %v", got, want)
			}
		})
	}
}
