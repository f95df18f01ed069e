package loader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"weir.dev/weir/server/apis/v1alpha1"
)

const (
	// refetchInterval is how often a tag is resolved again: a registry is asked for one header.
	refetchInterval = 5 * time.Minute
	// firstBackOff is the pause after the first attempt that failed; each one is twice as long as the last.
	firstBackOff = time.Second
	// jitter is the part by which a pause is longer or shorter, so that servers do not ask a registry all at once.
	jitter = 0.1
)

// backOff is the pause after an attempt that failed, the first of which is 0.
func backOff(attempt int, most time.Duration) time.Duration {
	return min(firstBackOff<<min(attempt, 20), most)
}

// pause waits for about d. It reports false when ctx is done.
func (l *Loader) pause(ctx context.Context, d time.Duration) bool {
	timer := l.cfg.Clock.NewTimer(time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))) //nolint:gosec // no secret
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// pollImage resolves a tag again and again.
func (l *Loader) pollImage(ctx context.Context, image *v1alpha1.ModuleImage, s *moduleState, w *sourceWatch) {
	for l.pause(ctx, l.cfg.RefetchInterval) {
		digest := ""
		opened, err := l.openImage(ctx, image)
		if err == nil {
			digest, err = opened.Resolve(ctx)
		}
		if ctx.Err() == nil {
			l.imageResolved(s, w, digest, err)
		}
	}
}

// imageResolved starts a load when a tag has another manifest than the one that was fetched last. A tag that cannot be
// resolved is no reason to doubt what is in force; status tells.
func (l *Loader) imageResolved(s *moduleState, w *sourceWatch, digest string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.source != w || l.modules[s.object.Name] != s || w.version == "" {
		return // it follows another one by now, is gone, or its load is not that far
	}
	if err != nil {
		err = fmt.Errorf("resolve the tag again: %w", err)
		if w.away == nil && s.progress.err == nil {
			l.cfg.Logger.Warn("source of a module is away; what is in force stays", "module", s.object.Name, "error", err)
			l.events.record(moduleReference(s.object), corev1.EventTypeWarning, reasonSourceAway, err.Error())
		}
		w.away = err
		l.enqueueModuleStatus(s.object.Name)
		return
	}
	if w.away != nil {
		w.away = nil
		l.enqueueModuleStatus(s.object.Name)
	}
	if w.version != digest {
		w.version = digest
		l.startLoadLocked(s)
	}
}

// isAway returns why the source of a Module cannot be asked any more, nil when it can.
func (w *sourceWatch) isAway() error {
	if w == nil {
		return nil
	}
	return w.away
}
