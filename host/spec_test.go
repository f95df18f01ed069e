package host

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// specCommand is a command of a wast2json file.
type specCommand struct {
	Type       string
	Line       int
	Filename   string
	Name       string
	As         string
	ModuleType string `json:"module_type"`
	Action     struct {
		Type, Field, Module string
		Args                []specValue
	}
}

// specValue is an argument. A vector has one string a lane.
type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    json.RawMessage
}

// specCount counts what was compared, by type of command, and what was not, by
// the reason.
type specCount map[string]int

// lacks skips a test for want of what it needs, but has it fail where CI is set,
// which has everything.
func lacks(t testing.TB, missing error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// TestSpecification runs every assertion of the WebAssembly specification's
// own tests that the engine's module carries (v1 and v2, with SIMD), on the
// original modules and on what the rewriter makes of them, linked with each
// other as the tests want it, on the engine's compiler and its interpreter:
// results, traps, memories and exported globals have to be the same, and no
// invalid module may become valid.
func TestSpecification(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine, and the interpreter takes ten times as long under the race detector")
	}
	if testing.Short() {
		t.Skip("thousands of modules")
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		lacks(t, fmt.Errorf("no source of the engine: %w", err))
	}
	spectest := filepath.Join(strings.TrimSpace(string(dir)), "internal/integration_test/spectest")
	for _, interpreter := range []bool{false, true} {
		name := "compiler"
		if interpreter {
			name = "interpreter"
		}
		t.Run(name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(spectest, "v[12]/testdata/*.json"))
			if err != nil || len(files) == 0 {
				lacks(t, fmt.Errorf("no specification tests in the engine's module, %s: %w", spectest, cmp.Or(err, fs.ErrNotExist)))
			}
			count := specCount{}
			for _, file := range files {
				name := filepath.Base(filepath.Dir(filepath.Dir(file))) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
				t.Run(name, func(t *testing.T) { runSpecFile(t, file, interpreter, count) })
			}
			if !maps.Equal(count, specCounted) {
				t.Errorf("counted %v, want %v", count, specCounted)
			}
		})
	}
}

func runSpecFile(t *testing.T, file string, interpreter bool, count specCount) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Commands []specCommand }
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	w := newSpecWorld(t, interpreter, filepath.Join(filepath.Dir(file), "../../testdata/spectest.wasm"), count)
	wasmOf := func(c specCommand) []byte {
		wasm, err := os.ReadFile(filepath.Join(filepath.Dir(file), c.Filename))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	for i, c := range all.Commands {
		switch c.Type {
		case "module":
			as := ""
			if i+1 < len(all.Commands) && all.Commands[i+1].Type == "register" {
				as = all.Commands[i+1].As
			}
			w.module(t, c, wasmOf(c), as)
		case "register": // with its module
		case "assert_invalid", "assert_malformed":
			if c.ModuleType == "text" {
				count["no binary: "+c.Type]++
				continue
			}
			w.invalid(t, c, wasmOf(c))
		case "assert_unlinkable", "assert_uninstantiable":
			w.unlinkable(t, c, wasmOf(c))
		case "action", "assert_return", "assert_trap", "assert_exhaustion":
			w.action(t, c)
		default:
			t.Errorf("line %d: unknown command %s", c.Line, c.Type)
		}
	}
	w.compareState(t)
}

// uint64s is how the engine passes a value.
func (v specValue) uint64s() ([]uint64, error) {
	if v.Type != "v128" {
		var text string
		if err := json.Unmarshal(v.Value, &text); err != nil {
			return nil, err
		}
		n, err := specNumber(v.Type, text)
		return []uint64{n}, err
	}
	var lanes []string
	if err := json.Unmarshal(v.Value, &lanes); err != nil {
		return nil, err
	}
	width := 128 / len(lanes)
	var both [2]uint64
	for i, text := range lanes {
		n, err := specNumber(v.LaneType, text)
		if err != nil {
			return nil, err
		}
		if width < 64 {
			n &= 1<<width - 1
		}
		both[i*width/64] |= n << (i * width % 64)
	}
	return both[:], nil
}

func specNumber(typ, text string) (uint64, error) {
	switch {
	case text == "null":
		return 0, nil
	case text == "nan:canonical" && typ == "f32":
		return uint64(math.Float32bits(float32(math.NaN()))), nil
	case text == "nan:canonical" && typ == "f64":
		return math.Float64bits(math.NaN()), nil
	case strings.HasPrefix(text, "-"):
		n, err := strconv.ParseInt(text, 10, 64)
		if strings.HasSuffix(typ, "32") {
			return uint64(uint32(n)), err
		}
		return uint64(n), err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if typ == "externref" { // to the engine, 0 is null
		n++
	}
	return n, err
}

func specSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
