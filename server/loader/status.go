package loader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// statusWriter writes to storage what the Loader decided, off its lock: one task at a time, and of each key the
// newest. A task that fails is tried again, with growing pauses: who waits for a condition waits for the write that says it,
// however long the storage is away.
type statusWriter struct {
	logger *slog.Logger

	mu    sync.Mutex
	tasks map[string]statusTask // guarded by mu
	order []string              // guarded by mu
	// newest has the keys of which a write is not done yet. guarded by mu
	newest map[string]newestStatus
	number uint64 // of the newest write; guarded by mu
	wake   chan struct{}
}

// newestStatus is the number of the newest write of a key, and how often in a row writes of it have failed.
type newestStatus struct {
	number   uint64
	attempts int
}

type statusTask struct {
	write  func(ctx context.Context) error
	number uint64
	// dispensable: it is given up after statusAttempts.
	dispensable bool
}

const (
	// statusAttempts is how often writes of a key are tried that are refused, or that nobody waits for, before they are given up
	// until the next change. Others go on; so many failures are told of.
	statusAttempts = 8
	// statusPause is the time before the second attempt, doubled for each further one up to statusPauseMax.
	statusPause    = 40 * time.Millisecond
	statusPauseMax = 30 * time.Second
	// statusTimeout bounds one write, so that none holds up the others for ever.
	statusTimeout = 10 * time.Second
	// flushTimeout bounds the writes that are left when the server stops: what is in force must be known after a
	// restart.
	flushTimeout = 10 * time.Second
)

func newStatusWriter(logger *slog.Logger) *statusWriter {
	return &statusWriter{logger: logger, tasks: map[string]statusTask{}, newest: map[string]newestStatus{}, wake: make(chan struct{}, 1)}
}

// enqueue has write called soon; it replaces a write of the same key that has not been called yet.
func (s *statusWriter) enqueue(key string, write func(ctx context.Context) error) {
	s.add(key, statusTask{write: write})
}

// enqueueDispensable is enqueue for what nobody waits for.
func (s *statusWriter) enqueueDispensable(key string, write func(ctx context.Context) error) {
	s.add(key, statusTask{write: write, dispensable: true})
}

// refused reports whether a write that failed would fail again.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// add puts a new task in the queue, in place of one of the same key.
func (s *statusWriter) add(key string, task statusTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	task.number = s.number
	s.newest[key] = newestStatus{task.number, s.newest[key].attempts}
	s.queueLocked(key, task)
}

// addAgain puts a task that failed in the queue, unless there is a newer one of its key.
func (s *statusWriter) addAgain(key string, task statusTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest[key].number == task.number {
		s.queueLocked(key, task)
	}
}

func (s *statusWriter) queueLocked(key string, task statusTask) {
	_, queued := s.tasks[key]
	s.tasks[key] = task
	if queued {
		return
	}
	s.order = append(s.order, key)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// failed counts a failure of a key in a row.
func (s *statusWriter) failed(key string) (attempts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.newest[key]
	n.attempts++
	s.newest[key] = n
	return n.attempts
}

// done forgets a key whose newest task was written or given up; the failures of an older one count no more.
func (s *statusWriter) done(key string, task statusTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.newest[key]; n.number != task.number {
		s.newest[key] = newestStatus{number: n.number}
		return
	}
	delete(s.newest, key)
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

// run writes until ctx is done, then once more what is left.
func (s *statusWriter) run(ctx context.Context) {
	var retries sync.WaitGroup
	for ctx.Err() == nil {
		key, task, ok := s.next()
		if !ok {
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := s.write(ctx, task)
		if err == nil {
			s.done(key, task)
			continue
		}
		attempts := s.failed(key)
		if attempts == statusAttempts {
			s.logger.ErrorContext(ctx, "status cannot be written", "object", key, "error", err)
		}
		if attempts >= statusAttempts && (task.dispensable || refused(err)) {
			s.done(key, task)
			continue
		}
		pause := min(statusPause<<min(attempts-1, 20), statusPauseMax)
		retries.Go(func() {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			s.addAgain(key, task)
		})
	}
	retries.Wait()
	s.flush(ctx)
}

func (s *statusWriter) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	for {
		key, task, ok := s.next()
		if !ok {
			return
		}
		if err := s.write(ctx, task); err != nil {
			s.logger.ErrorContext(ctx, "status cannot be written", "object", key, "error", err)
		}
	}
}

// write runs a task. An object that is gone needs no status.
func (s *statusWriter) write(ctx context.Context, task statusTask) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := task.write(ctx); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
