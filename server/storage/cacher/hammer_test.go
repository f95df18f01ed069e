package cacher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/etcd3/etcd3test"
)

// mortal is a storage whose watches die now and then.
type mortal struct {
	storage.Interface
}

func (m mortal) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	w, err := m.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return &mortalWatcher{Watcher: w}, nil
}

type mortalWatcher struct {
	storage.Watcher
	dead bool
}

func (w *mortalWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	if w.dead {
		return nil, io.EOF
	}
	switch rand.IntN(20) {
	case 0:
		return nil, io.EOF
	case 1:
		return nil, &storage.Error{Code: storage.ErrCodeUnreachable, Message: "connection lost"}
	}
	events, err := w.Watcher.Next(ctx)
	if rand.IntN(20) == 0 && len(events) > 1 {
		// What is not handed out is lost with the watch.
		w.dead = true
		return events[:1], err
	}
	return events, err
}

func TestHammerFake(t *testing.T) {
	hammer(t, newFake(), false)
}

func TestHammerMortalFake(t *testing.T) {
	hammer(t, newFake(), true)
}

func TestHammerMortalEtcd(t *testing.T) {
	store, err := etcd3.New(etcd3.Config{Client: etcd3test.New(t), Prefix: "/registry"})
	if err != nil {
		t.Fatal(err)
	}
	hammer(t, store, true)
}

// stalling returns a context that ends when there is no progress for a while: a machine that is busy otherwise makes tests
// slow, an event that is lost makes them wait for ever.
func stalling(t *testing.T) (ctx context.Context, progress func()) {
	const stall = time.Minute
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(stall, func() { cancel(errors.New("no progress")) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx, func() { timer.Reset(stall) }
}

// hammer has writers write and readers read while watchers of all kinds, slow ones
// among them, watch, and then compares what each got with the storage's own history.
func hammer(t *testing.T, raw storage.Interface, dying bool) {
	const writers, watchers, writes = 8, 192, 150
	store := raw
	if dying {
		store = mortal{raw}
	}
	c := newTestCacher(t, store, nil)
	first := putPod(t, raw, "start", "x", "", "")
	oracle := mustWatch(t, raw, testPrefix, selecting(t, rvString(first.ResourceVersion), "", ""))

	type view struct{ key, label, field string }
	views := []view{
		{key: testPrefix},
		{key: testPrefix + "a/"},
		{key: testPrefix + "b/"},
		{key: testPrefix, field: "spec.nodeName=n1"},
		{key: testPrefix, label: "app=one"},
		{key: testPrefix, label: "app!=two"},
		{key: testPrefix + "b/", field: "spec.nodeName!=n2", label: "app in (one,three)"},
		{key: testPrefix, field: "metadata.namespace=b"},
	}
	ctx, progress := stalling(t)
	var watching, writing sync.WaitGroup
	got := make([][]string, watchers)
	for i := range watchers {
		v := views[i%len(views)]
		opts := selecting(t, rvString(first.ResourceVersion), v.label, v.field)
		w := mustWatch(t, c, v.key, opts)
		watching.Go(func() {
			see := func(events []storage.Event) (end bool) {
				progress()
				opts.ResourceVersion = rvString(events[len(events)-1].Row.ResourceVersion)
				for _, e := range events {
					got[i] = append(got[i], describe(e))
					if e.Row.Key == podKey("b", "end") || e.Row.Key == podKey("a", "end") && v.key == testPrefix+"a/" {
						return true
					}
				}
				return false
			}
			var err error
			switch i / len(views) % 8 {
			case 0:
				err = follow(ctx, w, see)
			case 1:
				err = follow(ctx, w, func(events []storage.Event) bool {
					for range 2000 {
						runtime.Gosched()
					}
					return see(events)
				})
			case 2:
				_, err = followTaking(ctx, w, see, false)
			default:
				for left := true; left; {
					if left, err = followTaking(ctx, w, see, true); err != nil && dying {
						left, err = ctx.Err() == nil, nil // what is not in the ring is read from a storage that dies
					}
					if rand.IntN(2) == 0 {
						pauseFor(ctx, time.Duration(rand.IntN(1000))*time.Microsecond)
					}
					if left {
						if w, err = c.Watch(ctx, v.key, opts); err != nil {
							break
						}
					}
				}
			}
			if err != nil {
				t.Errorf("watcher %d after %d events: %v", i, len(got[i]), err)
			}
		})
	}
	for i := range writers {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		writing.Go(func() {
			for range writes {
				namespace, name := string("ab"[random.IntN(2)]), fmt.Sprintf("w%d-%d", i, random.IntN(3))
				row, err := c.Get(ctx, podKey(namespace, name), storage.GetOptions{IgnoreNotFound: true})
				switch {
				case err != nil:
				case !row.Value.IsZero() && random.IntN(4) == 0:
					_, err = c.Delete(ctx, row.Key, storage.DeleteOptions{})
				default:
					app, node := []string{"one", "two", "three"}[random.IntN(3)], []string{"n1", "n2"}[random.IntN(2)]
					_, err = c.GuaranteedUpdate(ctx, podKey(namespace, name), storage.UpdateOptions{IgnoreNotFound: true}, func(current storage.Row) ([]byte, uint64, error) {
						if current.ResourceVersion != row.ResourceVersion {
							return nil, 0, fmt.Errorf("%s: read %d, is at %d", current.Key, row.ResourceVersion, current.ResourceVersion)
						}
						return pod(namespace, name, node, app), 0, nil
					})
				}
				if err != nil {
					t.Errorf("writer: %v", err)
					return
				}
				progress()
				if random.IntN(10) == 0 {
					opts := selecting(t, "", "", "")
					opts.Predicate.Limit = random.Int64N(4)
					if list, err := c.GetList(ctx, testPrefix, opts); err != nil || list.ResourceVersion < row.ResourceVersion {
						t.Errorf("list at %d after %d: %v", list.ResourceVersion, row.ResourceVersion, err)
					}
				}
			}
		})
	}
	writing.Wait()
	putPod(t, c, "a", "end", "n1", "one")
	last := putPod(t, c, "b", "end", "n1", "one")
	watching.Wait()

	var history []storage.Event
	for len(history) == 0 || history[len(history)-1].Row.ResourceVersion < last.ResourceVersion {
		events, err := oracle.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, slices.Clone(events)...)
		progress()
	}
	for i := range got {
		v := views[i%len(views)]
		if want := expected(history, v.key, selecting(t, "", v.label, v.field).Predicate); !reflect.DeepEqual(got[i], want) {
			for n := range want {
				if n >= len(got[i]) || got[i][n] != want[n] {
					t.Errorf("watcher %d %+v: event %d of %d is not %q: %q", i, v, n, len(want), want[n], got[i][n:min(n+3, len(got[i]))])
					break
				}
			}
		}
	}
	if err := c.Check(ctx); err != nil {
		t.Error(err)
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n := c.pending.size.Load(); n != 0 {
		t.Errorf("%d rows are pending", n)
	}
}

// follow shows what a watch returns to see, until that has seen the end.
func follow(ctx context.Context, w storage.Watcher, see func([]storage.Event) (end bool)) error {
	defer w.Stop()
	for {
		events, err := w.Next(ctx)
		if err != nil || see(events) {
			return err
		}
	}
}

// followTaking is follow for a watch whose events are taken, mostly. With leaving it may leave before the end, and says so.
func followTaking(ctx context.Context, watcher storage.Watcher, see func([]storage.Event) (end bool), leaving bool) (left bool, err error) {
	w, ok := watcher.(storage.Offerer)
	if !ok {
		return false, fmt.Errorf("a %T offers nothing", watcher)
	}
	defer w.Stop()
	stopped := false
	take := func(events []storage.Event) {
		end := see(events)
		left = !end && leaving && rand.IntN(8) == 0
		if stopped = end || left; stopped {
			w.Stop()
		}
	}
	w.Offer(func(events []storage.Event) (taken bool, later func()) {
		if stopped || rand.IntN(8) == 0 {
			return false, nil
		}
		take(events)
		return true, [...]func(){nil, func() {}}[rand.IntN(2)]
	}, rand.Uint64N(3))
	for {
		events, err := w.Next(ctx)
		switch {
		case stopped:
			return left, nil
		case err != nil:
			return false, err
		}
		if take(events); stopped {
			return left, nil
		}
	}
}

// expected spells what a watcher should have seen of a history.
func expected(history []storage.Event, key string, p storage.SelectionPredicate) []string {
	var out []string
	for _, e := range history {
		if len(e.Row.Key) < len(key) || e.Row.Key[:len(key)] != key {
			continue
		}
		if e, ok := selectedEvent(e, p); ok {
			out = append(out, describe(e))
		}
	}
	return out
}
