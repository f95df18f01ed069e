package server

import (
	"context"
	"log/slog"

	"weir.dev/weir/server/storage/etcd3"
)

// outageLog is a slog.Handler that has what fails because an etcd is down at the level of debugging: all that follows a resource
// tries again and again, and fails alike, while the log says that the etcd is down, why, and each minute that it still is.
type outageLog struct{ slog.Handler }

// quietOutages returns a logger with an outageLog before that of another.
func quietOutages(logger *slog.Logger) *slog.Logger {
	if _, ok := logger.Handler().(outageLog); ok {
		return logger
	}
	return slog.New(outageLog{logger.Handler()})
}

// Handle implements slog.Handler.
func (h outageLog) Handle(ctx context.Context, r slog.Record) error {
	follows := false
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		follows = ok && etcd3.IsDown(err)
		return !follows
	})
	// What the Health itself says of an etcd is an error.
	if follows && r.Level < slog.LevelError {
		r.Level = slog.LevelDebug
		if !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h outageLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return outageLog{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h outageLog) WithGroup(name string) slog.Handler { return outageLog{h.Handler.WithGroup(name)} }
