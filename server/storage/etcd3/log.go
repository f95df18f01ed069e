package etcd3

import (
	"context"
	"log/slog"
	"strings"

	"go.uber.org/zap/zapcore"
)

// slogCore is the zapcore.Core that hands etcd's warnings and errors to a slog.Logger.
type slogCore struct {
	logger *slog.Logger
}

var _ zapcore.Core = slogCore{}

// Enabled implements zapcore.Core.
func (c slogCore) Enabled(level zapcore.Level) bool {
	return level >= zapcore.WarnLevel && c.logger.Enabled(context.Background(), slogLevel(level))
}

// With implements zapcore.Core.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{logger: slog.New(c.logger.Handler().WithAttrs(attrs(fields)))}
}

// Check implements zapcore.Core.
func (c slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	list := attrs(fields)
	level := slogLevel(entry.Level)
	if strings.HasPrefix(entry.Message, unaryFailed) {
		level = slog.LevelDebug
	}
	if !startNoise(entry.Message, list) {
		c.logger.LogAttrs(context.Background(), level, "etcd: "+entry.Message, list...)
	}
	return nil
}

// unaryFailed begins what the client says of each request that fails, also of one that its caller gave up. The caller
// has the error and tells it where it matters; while etcd is away there would be some of these a second.
const unaryFailed = "retrying of unary invoker failed"

// startNoise recognises what etcd says at each start of a new member whose election
// is not awaited (Embedded.elect) and which settles within milliseconds.
func startNoise(message string, fields []slog.Attr) bool {
	if strings.Contains(message, "cannot campaign at term") || strings.HasPrefix(message, unappliedScan) {
		return true
	}
	for _, f := range fields {
		if f.Key == "error" && strings.Contains(f.Value.String(), "missing term information") {
			return true
		}
	}
	return false
}

// unappliedScan begins what raft says when it stands for election while entries are being applied
// and etcd, which keeps its log in memory short, has let go of the first of them.
const unappliedScan = "error scanning unapplied entries"

// panicHook panics where etcd wants to, but for one case: raft scans the entries that are not applied yet for a change of
// members, and panics when some have been compacted. That is so only for a moment after a restart with more than a
// hundred entries, which etcd's own elections come too late to meet and Embedded.elect can. There is one
// member, which stands only once it has applied its own membership: the scan has nothing to find.
type panicHook struct{}

var _ zapcore.CheckWriteHook = panicHook{}

// OnWrite implements zapcore.CheckWriteHook.
func (panicHook) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	if entry != nil && strings.HasPrefix(entry.Message, unappliedScan) {
		return
	}
	zapcore.WriteThenPanic.OnWrite(entry, fields)
}

// Sync implements zapcore.Core.
func (slogCore) Sync() error { return nil }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

func attrs(fields []zapcore.Field) []slog.Attr {
	enc := zapcore.NewMapObjectEncoder()
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}
