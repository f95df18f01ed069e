package storagetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server/storage"
)

// set returns an UpdateFunc that stores o.
func set(o Object) storage.UpdateFunc {
	return func(storage.Row) ([]byte, uint64, error) { return o.JSON(), 0, nil }
}

// RunTestGuaranteedUpdate: a change is stored, a missing object is an error or, where
// that is asked for, created.
func RunTestGuaranteedUpdate(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a")
	_, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		t.Error("update function called for a missing object")
		return o.JSON(), 0, nil
	})
	wantCode(t, "update of a missing object", err, storage.ErrCodeKeyNotFound)

	created, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{IgnoreNotFound: true}, func(current storage.Row) ([]byte, uint64, error) {
		if !current.Value.IsZero() || current.ResourceVersion != 0 {
			t.Errorf("update function got %+v for a missing object", current)
		}
		return o.JSON(), 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "create by update", created, o, created.ResourceVersion)

	changed := o.With("k", "v")
	updated, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(current storage.Row) ([]byte, uint64, error) {
		wantRow(t, "current", current, o, created.ResourceVersion)
		return changed.JSON(), 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if updated.ResourceVersion <= created.ResourceVersion {
		t.Errorf("updated at %d, want after %d", updated.ResourceVersion, created.ResourceVersion)
	}
	wantRow(t, "update", updated, changed, updated.ResourceVersion)

	refused := errors.New("refused")
	if _, err = store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		return nil, 0, refused
	}); !errors.Is(err, refused) {
		t.Errorf("got error %v, want %v", err, refused)
	}
	got, err := store.Get(ctx, o.Key(), storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "get", got, changed, updated.ResourceVersion)
}

// RunTestGuaranteedUpdateNoop: an update that changes nothing is not written, with
// whatever resourceVersion it comes and whatever was suggested.
func RunTestGuaranteedUpdateNoop(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("k", "v")
	old := Create(ctx, t, store, NewObject("a"))
	live := Update(ctx, t, store, o)
	before, err := store.GetCurrentResourceVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, cached := range map[string]storage.Row{"fresh": {}, "old suggestion": old, "live suggestion": live} {
		for _, value := range []Object{o, o.At(1), o.At(live.ResourceVersion)} {
			row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: cached}, set(value))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			wantRow(t, name, row, o, live.ResourceVersion)
		}
	}
	if after, err := store.GetCurrentResourceVersion(ctx); err != nil || after != before {
		t.Errorf("current resource version went from %d to %d, %v", before, after, err)
	}

	// A suggestion that already equals the new value does not hide that another write came.
	if _, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, set(o.With("k", "other"))); err != nil {
		t.Fatal(err)
	}
	row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: live}, set(o))
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "update behind another", row, o, row.ResourceVersion)
	if row.ResourceVersion <= live.ResourceVersion {
		t.Errorf("update behind another at %d, want after %d", row.ResourceVersion, live.ResourceVersion)
	}
}

// RunTestGuaranteedUpdateConflict: the update function is called again with the row
// that another write has left.
func RunTestGuaranteedUpdateConflict(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("n", "0")
	Create(ctx, t, store, o)
	calls := 0
	row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(current storage.Row) ([]byte, uint64, error) {
		if calls++; calls == 1 {
			Update(ctx, t, store, o.With("n", "1"))
		}
		_, f, err := Attrs(current.Value.Bytes())
		return o.With("n", f["data.n"]+"+").JSON(), 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("update function called %d times, want 2", calls)
	}
	wantRow(t, "update", row, o.With("n", "1+"), row.ResourceVersion)

	// It was deleted meanwhile.
	calls = 0
	_, err = store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		if calls++; calls == 1 {
			Delete(ctx, t, store, o)
		}
		return o.With("n", "2").JSON(), 0, nil
	})
	wantCode(t, "update of a deleted object", err, storage.ErrCodeKeyNotFound)
}

// RunTestGuaranteedUpdateConcurrent: no increment of many is lost.
func RunTestGuaranteedUpdateConcurrent(ctx context.Context, t *testing.T, store storage.Interface) {
	const writers, increments = 8, 20
	o := NewObject("a").With("n", "0")
	row := Create(ctx, t, store, o)
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			var cached storage.Row
			if i%2 == 0 {
				cached = row
			}
			for range increments {
				_, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: cached}, func(current storage.Row) ([]byte, uint64, error) {
					_, f, err := Attrs(current.Value.Bytes())
					if err != nil {
						return nil, 0, err
					}
					n, err := strconv.Atoi(f["data.n"])
					return o.With("n", strconv.Itoa(n+1)).JSON(), 0, err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	got, err := store.Get(ctx, o.Key(), storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "get", got, o.With("n", strconv.Itoa(writers*increments)), got.ResourceVersion)
}

// RunTestGuaranteedUpdateSuggestion: an old suggestion is read again before an error
// that rests on it is returned, and what is stored rests on the live row.
func RunTestGuaranteedUpdateSuggestion(ctx context.Context, t *testing.T, store storage.Interface) {
	refused := errors.New("refused")
	o := NewObject("a").With("n", "0")
	old := Create(ctx, t, store, o)
	o = o.With("n", "1")
	live := Update(ctx, t, store, o)
	accept := func(want string) storage.UpdateFunc {
		return func(current storage.Row) ([]byte, uint64, error) {
			if _, f, err := Attrs(current.Value.Bytes()); err != nil || f["data.n"] != want {
				return nil, 0, refused
			}
			return o.With("by", want).JSON(), 0, nil
		}
	}
	// The suggestion would be refused, the live row is not.
	row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: old}, accept("1"))
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "update", row, o.With("by", "1"), row.ResourceVersion)
	// The suggestion would be accepted, the live row is not.
	if _, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: old}, accept("0")); !errors.Is(err, refused) {
		t.Errorf("got error %v, want %v", err, refused)
	}
	// The suggestion is right, and so is the refusal.
	if _, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: row}, accept("0")); !errors.Is(err, refused) {
		t.Errorf("got error %v, want %v", err, refused)
	}
	// The object is gone.
	Delete(ctx, t, store, o)
	_, err = store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{Cached: live}, accept("1"))
	wantCode(t, "update of a deleted object", err, storage.ErrCodeKeyNotFound)
}

// RunTestGuaranteedUpdatePreconditions: they are checked against the live object.
func RunTestGuaranteedUpdatePreconditions(ctx context.Context, t *testing.T, store storage.Interface) {
	uid, otherUID := types.UID("uid-a"), types.UID("other")
	o := NewObject("a")
	first := Create(ctx, t, store, o)
	second := Update(ctx, t, store, o.With("k", "v"))
	old := rv(first.ResourceVersion)
	for name, cached := range map[string]storage.Row{"fresh": {}, "old suggestion": first, "live suggestion": second} {
		_, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{
			Preconditions: &storage.Preconditions{UID: &otherUID}, Cached: cached,
		}, set(o))
		wantCode(t, name+": another uid", err, storage.ErrCodeInvalidObj)
		_, err = store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{
			Preconditions: &storage.Preconditions{UID: &uid, ResourceVersion: &old}, Cached: cached,
		}, set(o))
		wantCode(t, name+": an old resourceVersion", err, storage.ErrCodeResourceVersionConflicts)
	}
	live := rv(second.ResourceVersion)
	row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{
		Preconditions: &storage.Preconditions{UID: &uid, ResourceVersion: &live}, Cached: first,
	}, set(o))
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "update", row, o, row.ResourceVersion)
}

// RunTestTTL: objects stored with a TTL expire, by create and by update, and a watch
// sees it; an update without a TTL keeps the object. It takes some seconds.
func RunTestTTL(ctx context.Context, t *testing.T, store storage.Interface) {
	a, b, c := NewObject("a"), NewObject("b"), NewObject("c")
	row, err := store.Create(ctx, a.Key(), a.JSON(), 1)
	if err != nil {
		t.Fatal(err)
	}
	events := watch(ctx, t, store, Prefix, withRV(everything(), rv(row.ResourceVersion)))
	Create(ctx, t, store, b)
	if _, err := store.GuaranteedUpdate(ctx, b.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		return b.With("k", "v").JSON(), 1, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Create(ctx, c.Key(), c.JSON(), 1); err != nil {
		t.Fatal(err)
	}
	// On a machine that is slow it may have expired by now.
	kept, err := store.GuaranteedUpdate(ctx, c.Key(), storage.UpdateOptions{IgnoreNotFound: true}, func(storage.Row) ([]byte, uint64, error) {
		return c.With("k", "v").JSON(), 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for gone := map[string]bool{}; len(gone) < 2; {
		e, err := events.next(ctx, t)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Type != storage.Deleted:
		case e.Row.Key != c.Key():
			gone[e.Row.Key] = true
		case e.Row.ResourceVersion > kept.ResourceVersion:
			t.Fatal("an object without a TTL expired")
		}
	}
	if _, err := store.Get(ctx, c.Key(), storage.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// withRV returns opts at a resourceVersion.
func withRV(opts storage.ListOptions, resourceVersion string) storage.ListOptions {
	opts.ResourceVersion = resourceVersion
	return opts
}
