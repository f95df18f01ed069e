package loader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// statusWriter writes to storage what the Loader decided, off its lock: one task per key at a time, the
// newest wins. A task that fails is tried again, with growing pauses.
type statusWriter struct {
	logger *slog.Logger

	mu    sync.Mutex
	tasks map[string]statusTask // guarded by mu
	order []string              // guarded by mu
	wake  chan struct{}
}

type statusTask struct {
	write    func(ctx context.Context) error
	attempts int
}

// statusAttempts is how often a write is tried before it is given up until the next change.
const statusAttempts = 8

func newStatusWriter(logger *slog.Logger) *statusWriter {
	return &statusWriter{logger: logger, tasks: map[string]statusTask{}, wake: make(chan struct{}, 1)}
}

// enqueue has write called soon; it replaces a write of the same key that has not been called yet.
func (s *statusWriter) enqueue(key string, write func(ctx context.Context) error) {
	s.add(key, statusTask{write: write}, true)
}

func (s *statusWriter) add(key string, task statusTask, replace bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.tasks[key]; ok {
		if replace {
			s.tasks[key] = task
		}
		return
	}
	s.tasks[key] = task
	s.order = append(s.order, key)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *statusWriter) next() (key string, task statusTask, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return "", statusTask{}, false
	}
	key = s.order[0]
	s.order = s.order[1:]
	task = s.tasks[key]
	delete(s.tasks, key)
	return key, task, true
}

// run writes until ctx is done.
func (s *statusWriter) run(ctx context.Context) {
	var retries sync.WaitGroup
	defer retries.Wait()
	for {
		key, task, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := task.write(ctx)
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			continue
		}
		task.attempts++
		if task.attempts == statusAttempts {
			s.logger.ErrorContext(ctx, "status cannot be written", "object", key, "error", err)
			continue
		}
		pause := 20 * time.Millisecond << task.attempts
		retries.Go(func() {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			select {
			case <-timer.C:
				s.add(key, task, false)
			case <-ctx.Done():
			}
		})
	}
}
