package recording

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// What is lost is told of when it begins, once a minute, and when it is over.
func TestLosses(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "file" {
			return slog.Attr{}
		}
		return a
	}}))
	l := &losses{file: "f"}
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int, reason string, n, written int, err error) {
		l.add(reason, n)
		l.tell(logger, start.Add(time.Duration(seconds)*time.Second), written, err)
	}
	at(0, droppedQueue, 0, 5, nil)
	at(1, droppedWrite, 2, 0, errors.New("disk full"))
	for s := 2; s <= 125; s++ { // a queue that is full for two minutes
		at(s, droppedQueue, 10, 1, nil)
	}
	for s := 126; s < 200; s++ { // nothing happens
		at(s, droppedQueue, 0, 0, nil)
	}
	at(200, droppedQueue, 0, 1, nil)
	for s := 210; s < 250; s++ { // losses come and go
		at(s, droppedQueue, s%15/14, 1, nil)
	}
	for s := 250; s < 320; s++ {
		at(s, droppedQueue, 0, 1, nil)
	}
	at(330, droppedQueue, 0, 0, errors.New("cannot rotate"))
	at(331, droppedQueue, 1, 0, nil)
	at(332, droppedEnd, 3, 0, nil)
	l.end(logger, start.Add(332*time.Second))
	l.end(logger, start.Add(332*time.Second))
	const cannot = `level=ERROR msg="admission requests cannot be recorded" `
	want := cannot + `lost=2 lostSinceItBegan=2 writeError=2 error="disk full"
` + cannot + `lost=600 lostSinceItBegan=602 queueFull=600
` + cannot + `lost=600 lostSinceItBegan=1202 queueFull=600
` + cannot + `lost=40 lostSinceItBegan=1242 queueFull=40
level=INFO msg="admission requests are recorded again" lostSinceItBegan=1242 after=2m4s
` + cannot + `lost=2 lostSinceItBegan=2 queueFull=2
level=INFO msg="admission requests are recorded again" lostSinceItBegan=2 after=15s
` + cannot + `lost=0 lostSinceItBegan=0 error="cannot rotate"
` + cannot + `lost=4 lostSinceItBegan=4 queueFull=1 shutdown=3
`
	if got := out.String(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
