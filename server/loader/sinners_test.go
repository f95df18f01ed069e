package loader_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
				} else if message != "bad output" && counted(t, f.Environment, name, class) == 0 {
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

// TestSinnersMeetTheirBounds: a guest that eats memory is stopped by the bound of its Module on memory and one that loops by
// that on fuel, not by the time that either takes; the client is told which, each time. One that stays
// within the bound answers.
func TestSinnersMeetTheirBounds(t *testing.T) {
	sinners := map[string][]byte{}
	for _, s := range hosttest.Sinners() {
		sinners[s.Name] = s.Wasm
	}
	tests := []struct {
		name, sinner, class, message string
		limits                       map[string]any
	}{
		{"memory", "grows_until_it_traps", "memory", "wants more than 4096 KiB of memory", map[string]any{"memoryBytes": 4 << 20}},
		{"more-memory", "grows_until_it_traps", "memory", "wants more than 16384 KiB of memory", map[string]any{"memoryBytes": 16 << 20}},
		// It takes milliseconds, and there is a minute.
		{"fuel", "loops_forever", "fuel", "fuel exhausted after 1000000 units", map[string]any{"fuel": 1_000_000, "timeoutMilliseconds": 60_000}},
		{"fuel-of-calls", "calls_without_a_loop", "fuel", "fuel exhausted after 1000000 units", map[string]any{"fuel": 1_000_000, "timeoutMilliseconds": 60_000}},
	}
	f := start(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			wasm := sinners[tc.sinner]
			if wasm == nil {
				t.Fatalf("there is no sinner %s", tc.sinner)
			}
			name := "bound-" + tc.name
			f.ready(t, modules, module(name, inline(wasm), map[string]any{"limits": tc.limits}))
			f.ready(t, strategies, onConfigMaps(calls(name)))
			want := regexp.MustCompile(`module\[` + name + `\] hook\[\w+\]: ` + tc.message)
			const writes = 3
			for range writes {
				_, err := f.write(t, "")
				var status apierrors.APIStatus
				if !errors.As(err, &status) {
					t.Fatalf("the write: %v", err)
				}
				if s := status.Status(); s.Code != http.StatusInternalServerError || s.Reason != metav1.StatusReasonInternalError || !want.MatchString(s.Message) {
					t.Errorf("the write: %d %s: %s; want %s", s.Code, s.Reason, s.Message, want)
				}
			}
			for _, class := range []string{"memory", "fuel", "deadline", "trap", "ok"} {
				want := 0.0
				if class == tc.class {
					want = writes
				}
				if got := counted(t, f.Environment, name, class); got != want {
					t.Errorf("%v calls of class %s are counted, want %v", got, class, want)
				}
			}
		})
	}
	f.ready(t, modules, module("bound-memory", inline(hosttest.Echo("echo")), map[string]any{"limits": map[string]any{"memoryBytes": 4 << 20}}))
	f.ready(t, strategies, onConfigMaps(calls("bound-memory")))
	if _, err := f.write(t, ""); err != nil {
		t.Errorf("a guest within its bounds: %v", err)
	}
}

// counted is how many calls of a module that ended in a class are in the metrics.
func counted(t *testing.T, env *servertest.Environment, module, class string) (n float64) {
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
			_, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			calls, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			n += calls
		}
	}
	return n
}
