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
	if !startNoise(entry.Message, list) {
		c.logger.LogAttrs(context.Background(), slogLevel(entry.Level), "etcd: "+entry.Message, list...)
	}
	return nil
}

// startNoise recognises what etcd says at each start of a new member whose election
// is not awaited (Embedded.elect) and which settles within milliseconds.
func startNoise(message string, fields []slog.Attr) bool {
	if strings.Contains(message, "cannot campaign at term") {
		return true
	}
	for _, f := range fields {
		if f.Key == "error" && strings.Contains(f.Value.String(), "missing term information") {
			return true
		}
	}
	return false
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
