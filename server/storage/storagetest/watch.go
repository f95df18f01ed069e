package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/storage"
)

// asError is errors.As for a storage.Error.
func asError(err error, e **storage.Error) bool { return errors.As(err, e) }

// initialEvents returns options of a watch that begins with the state.
func initialEvents(send bool) storage.ListOptions {
	opts := everything()
	opts.SendInitialEvents = &send
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	opts.Predicate.AllowWatchBookmarks = true
	return opts
}

// RunTestWatch: every event after a revision, once and in order, with the object as it
// became; a deletion brings the last state with the revision of the deletion.
func RunTestWatch(ctx context.Context, t *testing.T, store storage.Interface) {
	first := Create(ctx, t, store, NewObject("first"))
	a := NewObject("a").With("n", "1")
	early := Create(ctx, t, store, a)
	events := watch(ctx, t, store, Prefix, withRV(everything(), rv(first.ResourceVersion)))
	events.want(ctx, t, storage.Added, a, early.ResourceVersion)

	updated := Update(ctx, t, store, a.With("n", "2"))
	events.want(ctx, t, storage.Modified, a.With("n", "2"), updated.ResourceVersion)
	deleted := Delete(ctx, t, store, a)
	events.want(ctx, t, storage.Deleted, a.With("n", "2"), deleted.ResourceVersion)
	again := Create(ctx, t, store, a)
	events.want(ctx, t, storage.Added, a, again.ResourceVersion)

	// A watch that begins in between sees the same from there.
	events = watch(ctx, t, store, Prefix, withRV(everything(), rv(updated.ResourceVersion)))
	events.want(ctx, t, storage.Deleted, a.With("n", "2"), deleted.ResourceVersion)
	events.want(ctx, t, storage.Added, a, again.ResourceVersion)
}

// RunTestWatchScope: a watch sees what is below its prefix, or its one key, only.
func RunTestWatchScope(ctx context.Context, t *testing.T, store storage.Interface) {
	start := Create(ctx, t, store, NewObject("start")).ResourceVersion
	one := everything()
	one.Recursive = false
	a, ab := NewObject("a"), NewObject("ab")
	inNamespace := watch(ctx, t, store, Prefix+"test/", withRV(everything(), rv(start)))
	ofObject := watch(ctx, t, store, ab.Key(), withRV(one, rv(start)))

	other := NewObject("a")
	other.Namespace = "test-2"
	Create(ctx, t, store, other)
	Create(ctx, t, store, NewObject("abc"))
	Delete(ctx, t, store, NewObject("abc"))
	first := Create(ctx, t, store, a)
	second := Create(ctx, t, store, ab)

	ofObject.want(ctx, t, storage.Added, ab, second.ResourceVersion)
	if e, err := inNamespace.next(ctx, t); err != nil || e.Row.Key != NewObject("abc").Key() {
		t.Errorf("got %+v, %v, want abc", e, err)
	}
	if e, err := inNamespace.next(ctx, t); err != nil || e.Type != storage.Deleted {
		t.Errorf("got %+v, %v, want abc deleted", e, err)
	}
	inNamespace.want(ctx, t, storage.Added, a, first.ResourceVersion)
	inNamespace.want(ctx, t, storage.Added, ab, second.ResourceVersion)
	_, err := store.Watch(ctx, Prefix+"test", everything())
	wantCode(t, "prefix without a slash", err, storage.ErrCodeInvalidKey)
	_, err = store.Watch(ctx, Prefix, withRV(everything(), "x"))
	wantCode(t, "bad resourceVersion", err, storage.ErrCodeBadResourceVersion)
}

// RunTestWatchInitial: a watch from no revision begins with the state, ordered by key,
// and goes on with what follows; with sendInitialEvents a bookmark ends the state.
func RunTestWatchInitial(ctx context.Context, t *testing.T, store storage.Interface) {
	b, a := NewObject("b"), NewObject("a")
	rowB := Create(ctx, t, store, b)
	Create(ctx, t, store, a)
	rowA := Update(ctx, t, store, a.With("n", "1"))
	a = a.With("n", "1")
	// A cache serves the state of "0" as it has it: let it catch up.
	list(ctx, t, store, everything())

	type start struct {
		name     string
		opts     storage.ListOptions
		bookmark bool
	}
	noBookmarks := initialEvents(true)
	noBookmarks.Predicate.AllowWatchBookmarks = false
	starts := []start{
		{name: "unset", opts: everything()},
		{name: "0", opts: withRV(everything(), "0")},
		{name: "unset, initial events", opts: initialEvents(true), bookmark: true},
		{name: "0, initial events", opts: withRV(initialEvents(true), "0"), bookmark: true},
		{name: "N, initial events", opts: withRV(initialEvents(true), rv(rowA.ResourceVersion)), bookmark: true},
		{name: "unset, initial events without bookmarks", opts: noBookmarks},
	}
	streams := make([]*stream, len(starts))
	for i, s := range starts {
		streams[i] = watch(ctx, t, store, Prefix, s.opts)
		streams[i].want(ctx, t, storage.Added, a, rowA.ResourceVersion)
		streams[i].want(ctx, t, storage.Added, b, rowB.ResourceVersion)
		if s.bookmark {
			streams[i].wantInitialEnd(ctx, t, rowA.ResourceVersion)
		}
	}
	deleted := Delete(ctx, t, store, b)
	for i := range starts {
		streams[i].want(ctx, t, storage.Deleted, b, deleted.ResourceVersion)
	}
	// Without the state, no revision means from now on.
	for _, version := range []string{"", "0"} {
		if version == "0" {
			list(ctx, t, store, everything())
		}
		events := watch(ctx, t, store, Prefix, withRV(initialEvents(false), version))
		created := Create(ctx, t, store, b)
		events.want(ctx, t, storage.Added, b, created.ResourceVersion)
		Delete(ctx, t, store, b)
	}
}

// RunTestWatchInitialEmpty: the bookmark comes on an empty collection too, at once.
func RunTestWatchInitialEmpty(ctx context.Context, t *testing.T, store storage.Interface) {
	current, err := store.GetCurrentResourceVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	events := watch(ctx, t, store, Prefix, initialEvents(true))
	events.wantInitialEnd(ctx, t, current)
	row := Create(ctx, t, store, NewObject("a"))
	events.want(ctx, t, storage.Added, NewObject("a"), row.ResourceVersion)
}

// RunTestWatchFuture: a watch from a revision yet to come waits for it; with initial
// events it is refused.
func RunTestWatchFuture(ctx context.Context, t *testing.T, store storage.Interface) {
	row := Create(ctx, t, store, NewObject("a"))
	future := row.ResourceVersion + 2
	events := watch(ctx, t, store, Prefix, withRV(everything(), rv(future)))
	for i := range 4 {
		o := NewObject(fmt.Sprint("o", i))
		if row := Create(ctx, t, store, o); row.ResourceVersion > future {
			events.want(ctx, t, storage.Added, o, row.ResourceVersion)
		}
	}
	w, err := store.Watch(ctx, Prefix, withRV(initialEvents(true), rv(future+1000)))
	if err == nil {
		_, err = w.Next(ctx)
		w.Stop()
	}
	wantCode(t, "watch", err, storage.ErrCodeResourceVersionTooLarge)
}

// RunTestWatchSelectors: entering a selector is ADDED; leaving it DELETED with the last
// object that matched and the new resourceVersion.
func RunTestWatchSelectors(ctx context.Context, t *testing.T, store storage.Interface) {
	in, out := NewObject("a").Labelled("in", "yes").With("f", "1"), NewObject("a").With("f", "1")
	start := Create(ctx, t, store, NewObject("start"))
	options := func(p storage.SelectionPredicate) storage.ListOptions {
		opts := withRV(everything(), rv(start.ResourceVersion))
		opts.Predicate = p
		return opts
	}
	byLabel := watch(ctx, t, store, Prefix, options(Select(t, "in=yes", "")))
	byField := watch(ctx, t, store, Prefix, options(Select(t, "", "data.f=2")))
	byName := watch(ctx, t, store, Prefix, options(Select(t, "", "metadata.name=b")))

	Create(ctx, t, store, out)
	entered := Update(ctx, t, store, in)
	byLabel.want(ctx, t, storage.Added, in, entered.ResourceVersion)
	in2 := in.With("f", "2")
	changed := Update(ctx, t, store, in2)
	byLabel.want(ctx, t, storage.Modified, in2, changed.ResourceVersion)
	byField.want(ctx, t, storage.Added, in2, changed.ResourceVersion)
	left := Update(ctx, t, store, out.With("f", "3"))
	byLabel.want(ctx, t, storage.Deleted, in2, left.ResourceVersion)
	byField.want(ctx, t, storage.Deleted, in2, left.ResourceVersion)
	// It is out of sight: neither a change nor its deletion shows.
	Update(ctx, t, store, out.With("f", "4"))
	Delete(ctx, t, store, out)
	back := Create(ctx, t, store, in2)
	byLabel.want(ctx, t, storage.Added, in2, back.ResourceVersion)
	byField.want(ctx, t, storage.Added, in2, back.ResourceVersion)
	gone := Delete(ctx, t, store, in2)
	byLabel.want(ctx, t, storage.Deleted, in2, gone.ResourceVersion)
	byField.want(ctx, t, storage.Deleted, in2, gone.ResourceVersion)

	named := Create(ctx, t, store, NewObject("b"))
	byName.want(ctx, t, storage.Added, NewObject("b"), named.ResourceVersion)

	// The state that a watch begins with is selected too.
	Create(ctx, t, store, in)
	opts := initialEvents(true)
	opts.Predicate = Select(t, "in=yes", "")
	opts.Predicate.AllowWatchBookmarks = true
	events := watch(ctx, t, store, Prefix, opts)
	if e, err := events.next(ctx, t); err != nil || e.Type != storage.Added || e.Row.Key != in.Key() {
		t.Fatalf("got %+v, %v, want %s added", e, err, in.Key())
	}
	events.wantInitialEnd(ctx, t, named.ResourceVersion)
}

// RunTestWatchCompacted: a watch from a revision that is gone is Expired.
func RunTestWatchCompacted(ctx context.Context, t *testing.T, store storage.Interface, compact Compaction) {
	a := NewObject("a")
	first := Create(ctx, t, store, a)
	Update(ctx, t, store, a.With("n", "1"))
	last := Update(ctx, t, store, a.With("n", "2"))
	compact(ctx, t, last.ResourceVersion)
	w, err := store.Watch(ctx, Prefix, withRV(everything(), rv(first.ResourceVersion)))
	if err != nil {
		wantCode(t, "watch", err, storage.ErrCodeExpired)
	} else {
		defer w.Stop()
		(&stream{w: w}).wantError(ctx, t, storage.ErrCodeExpired)
		if _, again := w.Next(ctx); storage.CodeOf(again) != storage.ErrCodeExpired {
			t.Errorf("the error does not stay: %v", again)
		}
	}
	// From the revision that is kept everything is there.
	events := watch(ctx, t, store, Prefix, withRV(everything(), rv(last.ResourceVersion)))
	deleted := Delete(ctx, t, store, a)
	events.want(ctx, t, storage.Deleted, a.With("n", "2"), deleted.ResourceVersion)
}

// RunTestWatchNextContext: a Next that is given up loses nothing.
func RunTestWatchNextContext(ctx context.Context, t *testing.T, store storage.Interface) {
	a := NewObject("a")
	start := Create(ctx, t, store, NewObject("start"))
	events := watch(ctx, t, store, Prefix, withRV(everything(), rv(start.ResourceVersion)))
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := events.w.Next(done); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
	row := Create(ctx, t, store, a)
	if _, err := events.w.Next(done); !errors.Is(err, context.Canceled) {
		// An event that is there may be handed out all the same, but then not again.
		if err != nil {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		return
	}
	events.want(ctx, t, storage.Added, a, row.ResourceVersion)

	initial := watch(ctx, t, store, Prefix, initialEvents(true))
	if _, err := initial.w.Next(done); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	} else if err != nil {
		initial.want(ctx, t, storage.Added, a, row.ResourceVersion)
	}
}

// RunTestWatchStop: Stop, more than once and while Next waits, and the end of the
// context that Watch was given, end the stream cleanly.
func RunTestWatchStop(ctx context.Context, t *testing.T, store storage.Interface) {
	start := Create(ctx, t, store, NewObject("start"))
	opts := withRV(everything(), rv(start.ResourceVersion))
	stopped := watch(ctx, t, store, Prefix, opts)
	stopped.w.Stop()
	stopped.w.Stop()
	stopped.wantEnd(ctx, t)

	waiting := watch(ctx, t, store, Prefix, opts)
	var group sync.WaitGroup
	group.Go(func() {
		defer waiting.w.Stop()
		a := NewObject("a")
		if row, err := store.Create(ctx, a.Key(), a.JSON(), 0); err != nil || row.Value.IsZero() {
			t.Errorf("create: %v, %v", row, err)
		}
	})
	waiting.wantEnd(ctx, t)
	group.Wait()

	bounded, cancel := context.WithCancel(ctx)
	ended := watch(bounded, t, store, Prefix, opts)
	cancel()
	ended.wantEnd(ctx, t)
}

// RunTestWatchProgress: a watch that asked for progress learns a revision at which
// nothing happened in its own rows, when that is requested.
func RunTestWatchProgress(ctx context.Context, t *testing.T, store storage.Interface) {
	start := Create(ctx, t, store, NewObject("start"))
	opts := withRV(everything(), rv(start.ResourceVersion))
	opts.Progress = true
	opts.Predicate.AllowWatchBookmarks = true
	events := watch(ctx, t, store, Prefix+"quiet/", opts)
	last := Create(ctx, t, store, NewObject("a"))
	for {
		if err := store.RequestWatchProgress(ctx); err != nil {
			t.Fatal(err)
		}
		e, err := events.next(ctx, t)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != storage.Bookmark || e.InitialEventsEnd || !e.Row.Value.IsZero() {
			t.Fatalf("got %+v, want a bookmark", e)
		}
		if e.Row.ResourceVersion >= last.ResourceVersion {
			return
		}
	}
}

// RunTestWatchMany: with several writers and watchers, each watcher sees each event of
// each object once and in order.
func RunTestWatchMany(ctx context.Context, t *testing.T, store storage.Interface) {
	const writers, watchers, writes = 4, 4, 25
	start := Create(ctx, t, store, NewObject("start"))
	streams := make([]*stream, watchers)
	for i := range streams {
		opts := withRV(everything(), rv(start.ResourceVersion))
		if i%2 == 1 {
			opts.Predicate = Select(t, "writer", "")
		}
		streams[i] = watch(ctx, t, store, Prefix, opts)
	}
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() {
			o := NewObject(fmt.Sprint("w", i)).Labelled("writer", fmt.Sprint(i))
			if _, err := store.Create(ctx, o.Key(), o.With("n", "0").JSON(), 0); err != nil {
				t.Error(err)
			}
			for n := 1; n < writes; n++ {
				if _, err := store.GuaranteedUpdate(ctx, o.Key(), storage.UpdateOptions{}, set(o.With("n", fmt.Sprint(n)))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, s := range streams {
		seen := map[string]int{}
		last := start.ResourceVersion
		for n := 0; n < writers*writes; n++ {
			e, err := s.next(ctx, t)
			if err != nil {
				t.Fatal(err)
			}
			if e.Row.ResourceVersion <= last {
				t.Fatalf("event at %d behind one at %d", e.Row.ResourceVersion, last)
			}
			last = e.Row.ResourceVersion
			_, f, err := Attrs(e.Row.Value.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprint(seen[e.Row.Key]); f["data.n"] != want {
				t.Fatalf("%s: got write %s, want %s", e.Row.Key, f["data.n"], want)
			}
			seen[e.Row.Key]++
		}
	}
}
