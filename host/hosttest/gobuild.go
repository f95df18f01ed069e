package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BuildGo builds the guest of a package directory with the go tool and
// returns its bytes.
func BuildGo(t testing.TB, dir string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", dir, err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}
