package storagetest

import (
	"context"
	"strings"
	"testing"

	"weir.dev/weir/server/storage"
)

// RunTestCreate: a new object is stored, returned with its resourceVersion and read back.
func RunTestCreate(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("k", "<v> & \u00fc")
	before, err := store.GetCurrentResourceVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	row := Create(ctx, t, store, o)
	if row.ResourceVersion <= before {
		t.Errorf("created at %d, want after %d", row.ResourceVersion, before)
	}
	wantRow(t, "create", row, o, row.ResourceVersion)
	got, err := store.Get(ctx, o.Key(), storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "get", got, o, row.ResourceVersion)

	other := Create(ctx, t, store, NewObject("b"))
	if other.ResourceVersion <= row.ResourceVersion {
		t.Errorf("second object at %d, want after %d", other.ResourceVersion, row.ResourceVersion)
	}
}

// RunTestCreateExists: a key that is taken is refused and its object unchanged.
func RunTestCreateExists(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a")
	row := Create(ctx, t, store, o)
	_, err := store.Create(ctx, o.Key(), o.With("k", "v").JSON(), 0)
	wantCode(t, "create", err, storage.ErrCodeKeyExists)
	got, err := store.Get(ctx, o.Key(), storage.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantRow(t, "get", got, o, row.ResourceVersion)
	Delete(ctx, t, store, o)
	Create(ctx, t, store, o)
}

// RunTestCreateTooLarge: an object over the limit of 1.5 MiB is refused as such.
func RunTestCreateTooLarge(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("large").With("k", strings.Repeat("x", 1<<20))
	Create(ctx, t, store, o)
	large := o.With("k", strings.Repeat("x", 1536<<10))
	_, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		return large.JSON(), 0, nil
	})
	wantCode(t, "update", err, storage.ErrCodeTooLarge)
	Delete(ctx, t, store, o)
	_, err = store.Create(ctx, large.Key(), large.JSON(), 0)
	wantCode(t, "create", err, storage.ErrCodeTooLarge)
}

// RunTestKeys: a key that is not clean or lies outside is refused by every method.
func RunTestKeys(ctx context.Context, t *testing.T, store storage.Interface) {
	keys := []string{
		"", "/", Prefix + "..", Prefix + "../x", Prefix + "test/..", Prefix + "test/../x", Prefix + "./x", Prefix + "test/.",
		Prefix + "test//x", "/elsewhere/test/x",
	}
	for _, key := range keys {
		_, err := store.Create(ctx, key, NewObject("x").JSON(), 0)
		wantCode(t, "create "+key, err, storage.ErrCodeInvalidKey)
		_, err = store.Get(ctx, key, storage.GetOptions{})
		wantCode(t, "get "+key, err, storage.ErrCodeInvalidKey)
		_, err = store.Delete(ctx, key, storage.DeleteOptions{})
		wantCode(t, "delete "+key, err, storage.ErrCodeInvalidKey)
		_, err = store.GuaranteedUpdate(ctx, key, storage.UpdateOptions{IgnoreNotFound: true}, func(storage.Row) ([]byte, uint64, error) {
			return NewObject("x").JSON(), 0, nil
		})
		wantCode(t, "update "+key, err, storage.ErrCodeInvalidKey)
		_, err = store.GetList(ctx, key, everything())
		wantCode(t, "list "+key, err, storage.ErrCodeInvalidKey)
		_, err = store.Watch(ctx, key, everything())
		wantCode(t, "watch "+key, err, storage.ErrCodeInvalidKey)
	}
}
