package loader

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"weir.dev/weir/abi/document"
)

func TestPollFile(t *testing.T) {
	a, _, files := openArtefacts(t)
	if err := os.MkdirAll(files, 0o700); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	l := &Loader{cfg: Config{Clock: clock}, artefacts: a}
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(ended)
		l.pollFile(ctx, "m.wasm", func(version string, _ *document.Document) { told <- version })
	}()
	absent := <-told
	if err := os.WriteFile(filepath.Join(files, "m.wasm"), []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Step(filePause)
	one := <-told
	clock.Step(filePause)
	still := <-told
	if absent == one || one != still {
		t.Errorf("versions are %q, %q and %q", absent, one, still)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the poll does not end")
	}
}
