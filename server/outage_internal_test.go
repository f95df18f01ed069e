package server

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/storage/etcd3"
)

// What fails because an etcd is down is not logged beside that; all else is.
func TestOutageLog(t *testing.T) {
	members, err := etcd3.DialMembers(etcd3.DialConfig{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = members.Close() }()
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: members.Client(), Members: members, Interval: time.Millisecond, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer health.Close()
	for end := time.Now().Add(time.Minute); health.Down() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("an etcd that nobody has started is not down")
		}
	}
	status := errors.New("storage of pods does not answer the watch: " + health.Down().Error())
	for _, tc := range []struct {
		level slog.Level
		want  string
	}{
		{slog.LevelInfo, "INFO other;WARN other;ERROR down;"},
		{slog.LevelDebug, "INFO other;WARN other;ERROR down;DEBUG follows;DEBUG follows;"},
	} {
		var buf bytes.Buffer
		logger := quietOutages(slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: tc.level})))
		logger = quietOutages(logger).With("etcd", "etcd").WithGroup("")
		logger.Info("other", "error", errors.New("refused"))
		logger.Warn("other", "text", status.Error())
		logger.Error("down", "error", health.Down())
		logger.Info("follows", "err", health.Down())
		logger.Warn("follows", "resource", "pods", "error", status)
		var got strings.Builder
		for line := range strings.Lines(buf.String()) {
			_, level, _ := strings.Cut(line, "level=")
			level, msg, _ := strings.Cut(level, " msg=")
			msg, _, _ = strings.Cut(msg, " ")
			got.WriteString(level + " " + msg + ";")
		}
		if got.String() != tc.want {
			t.Errorf("%s: the log has %s, want %s", tc.level, got.String(), tc.want)
		}
	}
}
