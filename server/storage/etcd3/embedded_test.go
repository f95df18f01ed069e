package etcd3

import (
	"log/slog"
	"os"
	"testing"
	"time"
)

func TestStart(t *testing.T) {
	dir := t.TempDir()
	for i := 0; i < 3; i++ {
		t0 := time.Now()
		e, err := StartEmbedded(t.Context(), EmbeddedConfig{DataDir: dir, UnsafeNoFsync: i == 2, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t1 := time.Now()
		if _, err := e.Client().Put(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		t2 := time.Now()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		t.Log(t1.Sub(t0), t2.Sub(t1), time.Since(t2))
	}
}
