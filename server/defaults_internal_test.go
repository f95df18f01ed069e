package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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
