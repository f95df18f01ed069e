package storagetest

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/server/storage"
)

// patience is how long a step may take before the test fails.
const patience = time.Minute

// Compaction drops the history up to and including rev, and returns when the storage
// under test answers accordingly.
type Compaction func(ctx context.Context, t testing.TB, rev uint64)

// Create stores o and returns its row.
func Create(ctx context.Context, t testing.TB, store storage.Interface, o Object) storage.Row {
	t.Helper()
	row, err := store.Create(ctx, o.Key(), o.JSON(), 0)
	if err != nil {
		t.Fatalf("create %s: %v", o.Key(), err)
	}
	return row
}

// Update stores o in place of what is there and returns its row.
func Update(ctx context.Context, t testing.TB, store storage.Interface, o Object) storage.Row {
	t.Helper()
	row, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, func(storage.Row) ([]byte, uint64, error) {
		return o.JSON(), 0, nil
	})
	if err != nil {
		t.Fatalf("update %s: %v", o.Key(), err)
	}
	return row
}

// Delete removes o and returns its last row.
func Delete(ctx context.Context, t testing.TB, store storage.Interface, o Object) storage.Row {
	t.Helper()
	row, err := store.Delete(ctx, o.Key(), storage.DeleteOptions{})
	if err != nil {
		t.Fatalf("delete %s: %v", o.Key(), err)
	}
	return row
}

// everything returns list options for all rows of a prefix.
func everything() storage.ListOptions {
	return storage.ListOptions{
		Recursive: true,
		Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: Attrs},
	}
}

// rv spells a resourceVersion.
func rv(n uint64) string { return strconv.FormatUint(n, 10) }

// wantRow fails when row is not o at rv.
func wantRow(t testing.TB, what string, row storage.Row, o Object, rv uint64) {
	t.Helper()
	if row.Key != o.Key() || row.ResourceVersion != rv {
		t.Errorf("%s: got key %q at %d, want %q at %d", what, row.Key, row.ResourceVersion, o.Key(), rv)
	}
	if diff := cmp.Diff(string(o.At(rv).JSON()), row.Value.String()); diff != "" {
		t.Errorf("%s: value (-want +got):\n%s", what, diff)
	}
}

// wantCode fails when err does not have the code.
func wantCode(t testing.TB, what string, err error, code storage.ErrorCode) {
	t.Helper()
	if got := storage.CodeOf(err); err == nil || got != code {
		t.Errorf("%s: got error %v (code %d), want code %d", what, err, got, code)
	}
}

// wantNames fails when rows are not the objects of these names, in this order.
func wantNames(t testing.TB, what string, rows []storage.Row, names ...string) {
	t.Helper()
	got := []string{}
	for _, row := range rows {
		got = append(got, storage.MetadataString(row.Value.Bytes(), "name"))
	}
	if names == nil {
		names = []string{}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("%s: names (-want +got):\n%s", what, diff)
	}
}

// watch starts a watch that ends with the test.
func watch(ctx context.Context, t testing.TB, store storage.Interface, key string, opts storage.ListOptions) *stream {
	t.Helper()
	w, err := store.Watch(ctx, key, opts)
	if err != nil {
		t.Fatalf("watch %s: %v", key, err)
	}
	t.Cleanup(w.Stop)
	return &stream{w: w}
}

// stream hands out the events of a Watcher one by one.
type stream struct {
	w       storage.Watcher
	pending []storage.Event
}

// next returns the next event or the error that ended the stream.
func (s *stream) next(ctx context.Context, t testing.TB) (storage.Event, error) {
	t.Helper()
	if len(s.pending) == 0 {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		events, err := s.w.Next(ctx)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("watch: no event within %s", patience)
			}
			return storage.Event{}, err
		}
		if len(events) == 0 {
			t.Fatal("watch: Next returned neither an event nor an error")
		}
		s.pending = append([]storage.Event(nil), events...)
	}
	e := s.pending[0]
	s.pending = s.pending[1:]
	return e, nil
}

// want takes the next event that is no bookmark, which must be this one.
func (s *stream) want(ctx context.Context, t testing.TB, typ storage.EventType, o Object, rv uint64) {
	t.Helper()
	for {
		e, err := s.next(ctx, t)
		if err != nil {
			t.Fatalf("watch: got error %v, want %s %s at %d", err, typ, o.Name, rv)
		}
		if e.Type == storage.Bookmark && !e.InitialEventsEnd {
			continue
		}
		if e.Type != typ {
			t.Fatalf("watch: got %s %s at %d, want %s %s at %d", e.Type, e.Row.Key, e.Row.ResourceVersion, typ, o.Name, rv)
		}
		wantRow(t, "watch "+string(typ), e.Row, o, rv)
		return
	}
}

// wantInitialEnd takes the next event, which must be the bookmark that ends the initial events.
func (s *stream) wantInitialEnd(ctx context.Context, t testing.TB, atLeast uint64) {
	t.Helper()
	e, err := s.next(ctx, t)
	if err != nil {
		t.Fatalf("watch: got error %v, want the end of the initial events", err)
	}
	if e.Type != storage.Bookmark || !e.InitialEventsEnd {
		t.Fatalf("watch: got %s %s, want the end of the initial events", e.Type, e.Row.Key)
	}
	if e.Row.ResourceVersion < atLeast || !e.Row.Value.IsZero() {
		t.Errorf("watch: bookmark at %d with value %q, want at least %d without", e.Row.ResourceVersion, e.Row.Value, atLeast)
	}
}

// wantError takes events until the stream ends, which must be with that code.
func (s *stream) wantError(ctx context.Context, t testing.TB, code storage.ErrorCode) {
	t.Helper()
	for {
		e, err := s.next(ctx, t)
		if err != nil {
			wantCode(t, "watch", err, code)
			return
		}
		if e.Type != storage.Bookmark {
			t.Fatalf("watch: got %s %s, want an error of code %d", e.Type, e.Row.Key, code)
		}
	}
}

// wantEnd takes the end of the stream.
func (s *stream) wantEnd(ctx context.Context, t testing.TB) {
	t.Helper()
	s.pending = nil
	for {
		_, err := s.next(ctx, t)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("watch: got error %v, want io.EOF", err)
		}
	}
}
