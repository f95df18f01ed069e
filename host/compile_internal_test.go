package host

import (
	"context"
	"errors"
	"testing"
)

// TestCompilationsAreBounded: a module waits for its turn to be compiled, no
// longer than its context lasts.
func TestCompilationsAreBounded(t *testing.T) {
	rt, err := NewRuntime(Config{Compiles: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.takeTurn(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(t.Context())
	cancel()
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	_, err = rt.Load(short, wasm, ModuleConfig{})
	if class, _ := ClassOf(err); class != ClassDeadline || !errors.Is(err, context.Canceled) {
		t.Errorf("while another is compiled: %v", err)
	}
	loaded := make(chan error, 1)
	go func() {
		_, err := rt.Load(t.Context(), wasm, ModuleConfig{})
		loaded <- err
	}()
	rt.endTurn()
	if class, _ := ClassOf(<-loaded); class != ClassABIMismatch {
		t.Errorf("in its turn: %v", err)
	}
	if len(rt.compiling) != 0 {
		t.Error("a turn was not given back")
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
