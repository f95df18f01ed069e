package encryption

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// settle is how long the file must be left alone before it is read.
const settle = 20 * time.Millisecond

// Run follows the file and asks the plugins until ctx is done. It is called once.
func (e *Encryption) Run(ctx context.Context) {
	if e == nil {
		return
	}
	var owned sync.WaitGroup
	defer owned.Wait()
	retire := e.probe(ctx, e.current.Load(), &owned)
	defer func() { retire() }()

	changes := newWatch(e.config.File, e.logger)
	defer changes.close()
	poll := time.NewTicker(e.config.Intervals.Poll)
	defer poll.Stop()
	var settled <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes.events:
			settled = time.After(settle)
			continue
		case <-settled:
		case <-poll.C:
		}
		settled = nil
		changes.follow()
		next := e.reload(ctx)
		if next == nil {
			continue
		}
		retire()
		retire = e.probe(ctx, next, &owned)
	}
}

// probe asks the plugins of a generation until ctx is done or the function that it returns is called.
func (e *Encryption) probe(ctx context.Context, g *generation, owned *sync.WaitGroup) (retire context.CancelFunc) {
	ctx, retire = context.WithCancel(ctx)
	for _, p := range g.plugins {
		owned.Go(func() { p.run(ctx) })
	}
	return retire
}

// reload puts the file in force where it differs from what is, and returns the new generation; nil: nothing has changed.
func (e *Encryption) reload(ctx context.Context) *generation {
	content, err := os.ReadFile(e.config.File)
	if err != nil {
		e.fail(ctx, "", err)
		return nil
	}
	hash := hashOf(content)
	if hash == e.current.Load().hash {
		e.succeed(ctx, "encryption configuration is again the one in force")
		return nil
	}
	if e.hopeless(hash) {
		return nil
	}
	next, err := newGeneration(content, e.config.Intervals, e.logger)
	if err != nil {
		e.fail(ctx, hash, err)
		return nil
	}
	if err := next.admit(ctx); err != nil {
		next.release()
		if ctx.Err() == nil {
			e.fail(ctx, "", err)
		}
		return nil
	}
	last := e.current.Swap(next)
	last.release()
	e.metrics.reloaded(nil)
	e.metrics.inForce(hash)
	e.succeed(ctx, "")
	e.logger.InfoContext(ctx, "encryption configuration has changed", "file", e.config.File, "hash", hash)
	return next
}

// hopeless reports whether a content has failed and will fail again.
func (e *Encryption) hopeless(hash string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed == hash
}

// fail notes why the file is not in force. hash is that of its content if it will not do whatever happens elsewhere.
func (e *Encryption) fail(ctx context.Context, hash string, err error) {
	err = fmt.Errorf("encryption configuration %s is not in force, the one before it is: %w", e.config.File, err)
	e.metrics.reloaded(err)
	if was := e.CheckConfig(ctx); was == nil || was.Error() != err.Error() {
		e.logger.ErrorContext(ctx, "encryption configuration cannot be loaded; the last good one stays in force", "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure, e.failed = err, hash
}

// succeed notes that the file is in force, and logs message if it was not before.
func (e *Encryption) succeed(ctx context.Context, message string) {
	e.mu.Lock()
	was := e.failure
	e.failure, e.failed = nil, ""
	e.mu.Unlock()
	if was != nil && message != "" {
		e.logger.InfoContext(ctx, message, "file", e.config.File)
	}
}
