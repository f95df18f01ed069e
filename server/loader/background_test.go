package loader

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
)

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackground()
		var mu sync.Mutex
		all := map[string]bool{}
		ended := func(name string) (n int, ok bool) {
			mu.Lock()
			defer mu.Unlock()
			return len(all), all[name]
		}
		task := func(name string) func(context.Context) {
			return func(ctx context.Context) {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				all[name] = true
			}
		}
		stopEarly := b.start(task("stopped before the run"))
		stopEarly()
		stop := b.start(task("stopped"))
		b.start(task("left"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.run(ctx)
		}()
		synctest.Wait()
		b.start(task("late"))
		synctest.Wait()
		if n, ok := ended("stopped before the run"); n != 1 || !ok {
			t.Errorf("%d tasks ended, the one that was stopped among them: %v", n, ok)
		}
		stop()
		stop()
		synctest.Wait()
		if n, ok := ended("stopped"); n != 2 || !ok {
			t.Errorf("%d tasks ended, the one that was stopped among them: %v", n, ok)
		}
		cancel()
		<-done
		if n, _ := ended(""); n != 4 {
			t.Errorf("run ended and %d of 4 tasks did", n)
		}
	})
}
