package loader

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackground()
		ended := map[string]bool{}
		task := func(name string) func(context.Context) {
			return func(ctx context.Context) {
				<-ctx.Done()
				ended[name] = true
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
		if len(ended) != 1 || !ended["stopped before the run"] {
			t.Errorf("ended %v", ended)
		}
		stop()
		stop()
		synctest.Wait()
		if len(ended) != 2 || !ended["stopped"] {
			t.Errorf("ended %v after one was stopped", ended)
		}
		cancel()
		<-done
		if len(ended) != 4 {
			t.Errorf("run ended and %v did", ended)
		}
	})
}
