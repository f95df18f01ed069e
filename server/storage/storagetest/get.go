package storagetest

import (
	"context"
	"testing"

	"weir.dev/weir/server/storage"
)

// RunTestGet: one object by its key, at every freshness that can be asked for.
func RunTestGet(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("k", "1")
	created := Create(ctx, t, store, o)
	o = o.With("k", "2")
	updated := Update(ctx, t, store, o)
	Create(ctx, t, store, NewObject("ab"))
	last := Create(ctx, t, store, NewObject("z"))

	tests := []struct {
		name string
		opts storage.GetOptions
		// anyState accepts an older state.
		anyState bool
		code     storage.ErrorCode
	}{
		{name: "most recent", opts: storage.GetOptions{}},
		{name: "any", opts: storage.GetOptions{ResourceVersion: "0"}, anyState: true},
		{name: "at least the first", opts: storage.GetOptions{ResourceVersion: rv(created.ResourceVersion)}},
		{name: "at least the last", opts: storage.GetOptions{ResourceVersion: rv(updated.ResourceVersion)}},
		{name: "at least another's", opts: storage.GetOptions{ResourceVersion: rv(last.ResourceVersion)}},
		{name: "future", opts: storage.GetOptions{ResourceVersion: rv(last.ResourceVersion + 1000)}, code: storage.ErrCodeResourceVersionTooLarge},
		{name: "not a number", opts: storage.GetOptions{ResourceVersion: "x"}, code: storage.ErrCodeBadResourceVersion},
		{name: "negative", opts: storage.GetOptions{ResourceVersion: "-1"}, code: storage.ErrCodeBadResourceVersion},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			row, err := store.Get(ctx, o.Key(), tc.opts)
			switch {
			case tc.code != 0:
				wantCode(t, "get", err, tc.code)
			case tc.anyState && storage.IsNotFound(err):
				// A cache may not have seen it yet.
			case err != nil:
				t.Fatal(err)
			case tc.anyState && row.ResourceVersion == created.ResourceVersion:
				wantRow(t, "get", row, o.With("k", "1"), created.ResourceVersion)
			default:
				wantRow(t, "get", row, o, updated.ResourceVersion)
			}
		})
	}
}

// RunTestGetNotFound: a missing object is an error, or a row without value where that is asked for.
func RunTestGetNotFound(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a")
	Create(ctx, t, store, NewObject("aa"))
	for _, version := range []string{"", "0"} {
		_, err := store.Get(ctx, o.Key(), storage.GetOptions{ResourceVersion: version})
		wantCode(t, "get at "+version, err, storage.ErrCodeKeyNotFound)
		row, err := store.Get(ctx, o.Key(), storage.GetOptions{ResourceVersion: version, IgnoreNotFound: true})
		if err != nil || !row.Value.IsZero() || row.ResourceVersion != 0 {
			t.Errorf("get at %q: got %+v, %v, want a row without value", version, row, err)
		}
	}
}

// RunTestGetCurrentResourceVersion: it is at least the last write's, and grows with writes.
func RunTestGetCurrentResourceVersion(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a")
	last := uint64(0)
	check := func(row storage.Row) {
		t.Helper()
		current, err := store.GetCurrentResourceVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if current < row.ResourceVersion || current <= last {
			t.Errorf("current resource version %d, want at least %d and more than %d", current, row.ResourceVersion, last)
		}
		last = current
	}
	check(Create(ctx, t, store, o))
	check(Update(ctx, t, store, o.With("k", "v")))
	check(Delete(ctx, t, store, o))
}

// RunTestCount: rows are counted below a prefix only.
func RunTestCount(ctx context.Context, t *testing.T, store storage.Interface) {
	want := func(prefix string, n int64) {
		t.Helper()
		got, err := store.Count(ctx, prefix)
		if err != nil || got != n {
			t.Errorf("count %s: got %d, %v, want %d", prefix, got, err, n)
		}
	}
	want(Prefix, 0)
	other := NewObject("a")
	other.Namespace = "testx"
	for _, o := range []Object{NewObject("a"), NewObject("b"), other} {
		Create(ctx, t, store, o)
	}
	want(Prefix, 3)
	want(Prefix+"test/", 2)
	want(Prefix+"none/", 0)
	Delete(ctx, t, store, other)
	want(Prefix, 2)
	_, err := store.Count(ctx, Prefix+"test")
	wantCode(t, "count without a slash", err, storage.ErrCodeInvalidKey)
}

// RunTestReadiness: a storage that serves says so.
func RunTestReadiness(ctx context.Context, t *testing.T, store storage.Interface) {
	if _, err := store.GetCurrentResourceVersion(ctx); err != nil {
		t.Fatal(err)
	}
	if err := store.ReadinessCheck(); err != nil {
		t.Errorf("readiness: %v", err)
	}
}
