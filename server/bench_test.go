package server_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"weir.dev/weir/server"
)

// BenchmarkStart measures from New on an empty data directory to ready, the embedded etcd included.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		s, err := server.New(ctx, server.Config{DataDir: b.TempDir(), SecurePort: 0, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		for s.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
		b.StopTimer()
		stop()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
