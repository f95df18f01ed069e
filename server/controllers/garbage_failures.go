package controllers

import (
	"context"
	"log/slog"
	"sync"
)

// maxFailuresTold is how many failures are told between two sums.
const maxFailuresTold = 10

// failures tells of objects that nothing could be done for. One cause may be that of thousands: each is told once between two sums,
// and the others are counted.
type failures struct {
	logger *slog.Logger

	mu   sync.Mutex
	told map[string]struct{} // guarded by mu; by the text of the error
	more int                 // guarded by mu
}

// tell says that an object failed with err.
func (f *failures) tell(ctx context.Context, n node, err error, attempt int) {
	text := err.Error()
	f.mu.Lock()
	_, again := f.told[text]
	if again = again || len(f.told) >= maxFailuresTold; again {
		f.more++
	} else {
		if f.told == nil {
			f.told = map[string]struct{}{}
		}
		f.told[text] = struct{}{}
	}
	f.mu.Unlock()
	if !again {
		f.logger.WarnContext(ctx, "garbage collection failed; it is tried again", "kind", n.GroupKind,
			"namespace", n.namespace, "name", n.name, "error", err, "attempt", attempt)
	}
}

// sum says how many failures were not told.
func (f *failures) sum(ctx context.Context) {
	f.mu.Lock()
	more, causes := f.more, len(f.told)
	f.told, f.more = nil, 0
	f.mu.Unlock()
	if more > 0 {
		f.logger.WarnContext(ctx, "garbage collection failed more often than was told", "failures", more, "told", causes)
	}
}
