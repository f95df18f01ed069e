package loader

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Why the objects of a definition remain is told once.
func TestCleanupTellsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &cleanup{Loader: &Loader{cfg: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, name: "things.example.com"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c.run(ctx) // no definition can be read
		if n := strings.Count(log.String(), "things.example.com"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}
