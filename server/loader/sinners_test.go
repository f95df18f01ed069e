package loader_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/server/servertest"
)

// TestSinners applies every module that sins, and sends each that loads a write: the reason is in the Module's status or
// in the refusal, its class in the metrics, and other clients are served all the while.
func TestSinners(t *testing.T) {
	if testing.Short() {
		t.Skip("dozens of modules")
	}
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var served atomic.Int64
	others.Go(func() {
		other := connect(t, f.Environment)
		for ctx.Err() == nil {
			_, err := other.Resource(modules).List(ctx, metav1.ListOptions{Limit: 1})
			if err != nil && ctx.Err() == nil {
				t.Errorf("another client: %v", err)
				return
			}
			served.Add(1)
		}
	})
	defer others.Wait()
	defer cancel()
	for _, s := range hosttest.Sinners() {
		t.Run(s.Name, func(t *testing.T) {
			name := "sin-" + strings.ReplaceAll(s.Name, "_", "-")
			before := served.Load()
			f.put(t, modules, module(name, inline(s.Wasm)))
			ready := condition(f.settled(t, modules, name), "Ready")
			if s.AtLoad {
				if ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, s.Message) {
					t.Errorf("Ready is %s: %s; want %q", ready.Status, ready.Message, s.Message)
				}
			} else {
				if ready.Status != metav1.ConditionTrue {
					t.Fatalf("Ready is %s: %s", ready.Status, ready.Message)
				}
				f.put(t, strategies, onConfigMaps(calls(name)))
				_, err := f.write(t, "")
				class, message := s.Class.String(), s.Message
				if s.Name == "mutates_where_it_may_not" { // default may, but not all
					message = "bad output"
				}
				if err != nil && class == "fuel" && strings.Contains(err.Error(), "deadline exceeded") {
					class, message = "deadline", "deadline exceeded" // on a slow machine
				}
				if err == nil || !strings.Contains(err.Error(), message) || !strings.Contains(err.Error(), "module["+name+"] hook[") {
					t.Errorf("the write: %v; want %q", err, message)
				} else if message != "bad output" && !counted(t, f.Environment, name, class) {
					t.Errorf("no call of class %s is counted", class)
				}
			}
			for served.Load() == before && !t.Failed() {
				runtime.Gosched() // or the test ends in its timeout
			}
		})
	}
	if served.Load() == 0 {
		t.Error("no other client was served")
	}
}

// counted tells whether calls of a module that ended in a class are in the metrics.
func counted(t *testing.T, env *servertest.Environment, module, class string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, env.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := env.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "weir_host_calls_total{") && strings.Contains(line, `class="`+class+`"`) && strings.Contains(line, `module="`+module+`"`) {
			return true
		}
	}
	return false
}
