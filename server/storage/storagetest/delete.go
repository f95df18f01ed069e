package storagetest

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server/storage"
)

// RunTestDelete: the last state comes back with the revision of the deletion.
func RunTestDelete(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("k", "v")
	created := Create(ctx, t, store, o)
	row, err := store.Delete(ctx, o.Key(), storage.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if row.ResourceVersion <= created.ResourceVersion {
		t.Errorf("deleted at %d, want after %d", row.ResourceVersion, created.ResourceVersion)
	}
	wantRow(t, "delete", row, o, row.ResourceVersion)
	_, err = store.Get(ctx, o.Key(), storage.GetOptions{})
	wantCode(t, "get", err, storage.ErrCodeKeyNotFound)
	_, err = store.Delete(ctx, o.Key(), storage.DeleteOptions{})
	wantCode(t, "second delete", err, storage.ErrCodeKeyNotFound)
	_, err = store.Delete(ctx, o.Key(), storage.DeleteOptions{Cached: created})
	wantCode(t, "delete with a suggestion", err, storage.ErrCodeKeyNotFound)
}

// RunTestDeletePreconditions: they are checked against the live object, and name what differs.
func RunTestDeletePreconditions(ctx context.Context, t *testing.T, store storage.Interface) {
	uid, otherUID := types.UID("uid-a"), types.UID("other")
	o := NewObject("a")
	first := Create(ctx, t, store, o)
	o = o.With("k", "v")
	second := Update(ctx, t, store, o)
	old, live := rv(first.ResourceVersion), rv(second.ResourceVersion)
	tests := []struct {
		name string
		p    storage.Preconditions
		code storage.ErrorCode
	}{
		{name: "another uid", p: storage.Preconditions{UID: &otherUID}, code: storage.ErrCodeInvalidObj},
		{name: "an old resourceVersion", p: storage.Preconditions{ResourceVersion: &old}, code: storage.ErrCodeResourceVersionConflicts},
		{name: "the uid but an old resourceVersion", p: storage.Preconditions{UID: &uid, ResourceVersion: &old}, code: storage.ErrCodeResourceVersionConflicts},
		{name: "as it is", p: storage.Preconditions{UID: &uid, ResourceVersion: &live}},
	}
	for _, tc := range tests {
		for name, cached := range map[string]storage.Row{"": {}, " with an old suggestion": first, " with the live suggestion": second} {
			t.Run(tc.name+name, func(t *testing.T) {
				row, err := store.Delete(ctx, o.Key(), storage.DeleteOptions{Preconditions: &tc.p, Cached: cached})
				if tc.code != 0 {
					wantCode(t, "delete", err, tc.code)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wantRow(t, "delete", row, o, row.ResourceVersion)
				// Put it back as it was for the next case; its resourceVersion is new.
				second = Create(ctx, t, store, o)
				live = rv(second.ResourceVersion)
			})
		}
	}
}

// RunTestDeleteValidation: Validate sees the live row, once more when its refusal
// rests on a suggestion, and its error comes back as it is.
func RunTestDeleteValidation(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("allow", "no")
	first := Create(ctx, t, store, o)
	refused := errors.New("refused")
	var seen []uint64
	validate := func(_ context.Context, current storage.Row) error {
		seen = append(seen, current.ResourceVersion)
		if _, f, err := Attrs(current.Value.Bytes()); err != nil || f["data.allow"] != "yes" {
			return refused
		}
		return nil
	}
	for name, cached := range map[string]storage.Row{"fresh": {}, "suggestion": first} {
		seen = nil
		if _, err := store.Delete(ctx, o.Key(), storage.DeleteOptions{Validate: validate, Cached: cached}); !errors.Is(err, refused) {
			t.Errorf("%s: got error %v, want %v", name, err, refused)
		}
		if len(seen) == 0 || seen[0] != first.ResourceVersion {
			t.Errorf("%s: validated %v, want %d", name, seen, first.ResourceVersion)
		}
	}
	o = o.With("allow", "yes")
	second := Update(ctx, t, store, o)
	seen = nil
	row, err := store.Delete(ctx, o.Key(), storage.DeleteOptions{Validate: validate, Cached: first})
	if err != nil {
		t.Fatalf("refusal of an old suggestion was not reconsidered: %v", err)
	}
	wantRow(t, "delete", row, o, row.ResourceVersion)
	if seen[len(seen)-1] != second.ResourceVersion {
		t.Errorf("validated %v, want the last to be %d", seen, second.ResourceVersion)
	}
}

// RunTestDeleteConflict: a write between reading and deleting is seen by Validate, and
// what is deleted is what was validated last.
func RunTestDeleteConflict(ctx context.Context, t *testing.T, store storage.Interface) {
	o := NewObject("a").With("n", "0")
	Create(ctx, t, store, o)
	changed := o.With("n", "1")
	calls := 0
	row, err := store.Delete(ctx, o.Key(), storage.DeleteOptions{Validate: func(_ context.Context, current storage.Row) error {
		if calls++; calls == 1 {
			Update(ctx, t, store, changed)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 2 {
		t.Errorf("validated %d times, want 2", calls)
	}
	wantRow(t, "delete", row, changed, row.ResourceVersion)
}
