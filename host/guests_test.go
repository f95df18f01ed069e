package host_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/abitest"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/sdk/build"
	"weir.dev/weir/sdk/cases"
)

// guestCall is a call of a guest that is configured with settings.
type guestCall struct {
	name, settings string
	call           *host.Call
}

// buildGuest builds the guest of a directory of the repository. Without its
// tools the test is skipped, but fails where CI is set.
func buildGuest(t *testing.T, dir string, language build.Language) []byte {
	t.Helper()
	if missing := build.Missing(t.Context(), language); missing != nil {
		host.Lacks(t, missing)
	}
	file := filepath.Join(t.TempDir(), "guest.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: filepath.Join("..", dir), Output: file, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// guardCalls are the cases of the example.
func guardCalls(t *testing.T) (all []guestCall) {
	t.Helper()
	suites, err := cases.Load(os.DirFS(".."), "examples/guard/cases")
	if err != nil {
		t.Fatal(err)
	}
	for _, suite := range suites {
		for _, c := range suite.Cases {
			if c.Call.Op != abi.OpConfigure {
				all = append(all, guestCall{c.Name, string(c.Settings), &c.Call})
			}
		}
	}
	return all
}

// clauseCalls are those of the conformance kit: every hook, look-ups, and sins.
func clauseCalls(t *testing.T) (all []guestCall) {
	t.Helper()
	for _, c := range abitest.Clauses() {
		call, err := hosttest.HostCall(c.Call())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, guestCall{c.Op.String() + " " + c.Name, abitest.Settings, call})
	}
	return all
}

// TestGuestsAnswerTheSame: what the rewriter makes of a guest, put back after
// each call, answers as the guest that its compiler made does in its first call,
// byte for byte: verdicts, objects, patches, log lines, look-ups and traps.
func TestGuestsAnswerTheSame(t *testing.T) {
	if host.RaceEnabled {
		t.Skip("one goroutine, and the engine compiles slowly under the race detector")
	}
	if testing.Short() {
		t.Skip("builds guests of each language")
	}
	for _, guest := range []struct {
		dir   string
		calls []guestCall
		// bounded is how many calls the host ends: nothing would end them in
		// the original.
		bounded int
	}{
		{"examples/guard", guardCalls(t), 0},
		{"sdk/conformance", clauseCalls(t), 3},
	} {
		for _, language := range build.Languages() {
			dir := guest.dir + "/" + string(language)
			t.Run(dir, func(t *testing.T) {
				compareGuest(t, buildGuest(t, dir, language), guest.calls, guest.bounded)
			})
		}
	}
}

func compareGuest(t *testing.T, wasm []byte, calls []guestCall, bounded int) {
	t.Helper()
	type pair struct {
		rewritten *host.Module
		original  *host.Unmodified
	}
	// It is not the clock that stops a guest, however slow the machine is.
	rt := newRuntime(t, host.Config{Guests: 1, Limits: host.Limits{Timeout: time.Hour}})
	pairs := map[string]pair{}
	var compared, written, failed, stopped int
	for _, c := range calls {
		p, ok := pairs[c.settings]
		if !ok {
			config, err := hosttest.ConformanceConfig()
			if err != nil {
				t.Fatal(err)
			}
			config.Settings = json.RawMessage(c.settings)
			p.rewritten = load(t, rt, wasm, config)
			p.original = host.NewUnmodified(t, p.rewritten, wasm)
			pairs[c.settings] = p
		}
		if !p.rewritten.Handles(c.call.Op) {
			t.Errorf("%s: no such hook", c.name)
			continue
		}
		got := host.Rewritten(t, p.rewritten, c.call)
		switch got.Class {
		case host.ClassFuel, host.ClassMemory, host.ClassDepth:
			stopped++
			continue
		}
		if want := p.original.Answer(t, c.call); !got.Equal(want) {
			t.Errorf("%s:\n  rewritten %+v\nunmodified %+v", c.name, got, want)
		}
		compared++
		if len(got.Result)+len(got.Object)+len(got.Patch) > 0 {
			written++
		}
		if got.Class != 0 {
			failed++
		}
	}
	t.Logf("%d calls compared, %d of them wrote something, %d failed; %d were not", compared, written, failed, stopped)
	if stopped != bounded || written == 0 {
		t.Errorf("%d calls were stopped, want %d; %d wrote something", stopped, bounded, written)
	}
}
