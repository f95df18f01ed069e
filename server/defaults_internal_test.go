package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is lost again while it is made again is made once more, and what could not be made is tried again.
func TestDefaultsAreLostAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gr := schema.GroupResource{Group: "example.com", Resource: "things"}
		a, b := defaultKey{gr, "", "a"}, defaultKey{gr, "", "b"}
		d := &defaults{logger: slog.New(slog.DiscardHandler), found: make(chan struct{}, 1), lost: defaultKeys{}}
		h := &defaultsHandler{defaults: d, resource: gr, keys: defaultKeys{a: true, b: true}, there: map[defaultKey]defaultState{a: {}, b: {}}}
		var mu sync.Mutex
		var made []string // guarded by mu
		d.restore = func(_ context.Context, lost defaultKeys) error {
			var names []string
			for key := range maps.Keys(lost) {
				names = append(names, key.name)
			}
			slices.Sort(names)
			mu.Lock()
			defer mu.Unlock()
			made = append(made, fmt.Sprint(names))
			switch len(made) {
			case 1: // the etcd is emptied once more
				h.there = map[defaultKey]defaultState{a: {uid: "u"}}
				h.Replace(nil)
			case 2:
				return errors.New("away")
			}
			return nil
		}
		h.Replace(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go d.run(ctx)
		time.Sleep(defaultsPause - 1)
		synctest.Wait()
		mu.Lock()
		if len(made) != 0 {
			t.Errorf("made %q before every cache has found that its etcd went back", made)
		}
		mu.Unlock()
		<-ctx.Done()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"[a b]", "[a]", "[a]"}; !slices.Equal(made, want) {
			t.Errorf("made %q, want %q", made, want)
		}
	})
}

// Who finds a server ready may delete a default role at once: it is seen to go, and not held for lost.
func TestDefaultsAreFollowedWhenReady(t *testing.T) {
	s, err := New(t.Context(), Config{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer cancel()
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	for end := time.Now().Add(time.Minute); s.Ready() != nil; runtime.Gosched() { // nothing comes between
		if time.Now().After(end) {
			t.Fatal(s.Ready())
		}
	}
	now, over := context.WithCancel(t.Context())
	over()
	if err := s.defaults.waitFollowing(now); err != nil {
		t.Error(err)
	}
}
