package loader

import (
	"context"
	"sync"
)

// background runs tasks that outlive the event that started them, with the context of its run. The
// zero value is not usable, see newBackground.
type background struct {
	mu    sync.Mutex
	tasks []func(ctx context.Context) // guarded by mu
	wake  chan struct{}
}

func newBackground() *background { return &background{wake: make(chan struct{}, 1)} }

// start has task run in a goroutine of its own. The task must end when its context is done: with run, or
// by stop, which may be called at any time, more than once, and does not wait.
func (b *background) start(task func(ctx context.Context)) (stop context.CancelFunc) {
	stopped, stop := context.WithCancel(context.Background())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = append(b.tasks, func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(stopped, cancel)()
		task(ctx)
	})
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return stop
}

// run starts tasks until ctx is done, and waits for them.
func (b *background) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		b.mu.Lock()
		tasks := b.tasks
		b.tasks = nil
		b.mu.Unlock()
		for _, task := range tasks {
			running.Go(func() { task(ctx) })
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
}
