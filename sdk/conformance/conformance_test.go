// Package conformance runs the guest of each SDK through what package abitest
// has to say, on this project's host.
package conformance

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir.dev/weir/abi/abitest"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
	"weir.dev/weir/sdk/build"
)

// needs skips a test without the tools of a language, but has it fail where CI is
// set, whose tools `make toolchains` installs.
func needs(t *testing.T, language build.Language) {
	t.Helper()
	if missing := build.Missing(t.Context(), language); missing != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

// guest builds the guest of a language.
func guest(t *testing.T, language build.Language) []byte {
	t.Helper()
	needs(t, language)
	file := filepath.Join(t.TempDir(), "guest.wasm")
	if err := build.Guest(t.Context(), build.Config{Dir: string(language), Output: file, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d bytes", language, len(wasm))
	return wasm
}

func TestGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and compiles a guest of each language")
	}
	for _, language := range build.Languages() {
		t.Run(string(language), func(t *testing.T) {
			t.Parallel()
			wasm := guest(t, language)
			// What ends a sin is fuel or memory, however slow the machine is.
			rt, err := host.NewRuntime(host.Config{Guests: 2, Limits: host.Limits{Timeout: time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := rt.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			abitest.RunTestGuest(t, hosttest.Conformance(rt), wasm)
		})
	}
}

// TestNative runs the tests of the SDKs and of their guests on this machine, by
// the stand-ins for a host that each SDK has for its authors. (Those of the Go
// SDK are beside it.)
func TestNative(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a guest of each language")
	}
	tests := []struct {
		language build.Language
		dir      string
	}{
		{build.C, "c"},
		{build.Rust, "rust"},
		{build.Rust, "../rust"},
		{build.AssemblyScript, "assemblyscript"},
	}
	for _, tc := range tests {
		t.Run(tc.dir, func(t *testing.T) {
			needs(t, tc.language)
			if err := build.Native(t.Context(), tc.dir); err != nil {
				t.Fatal(err)
			}
		})
	}
}
