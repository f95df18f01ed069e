package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	weir "weir.dev/weir"
)

// findClang finds a clang whose linker for WebAssembly is installed, too.
func findClang() (string, error) {
	const get = "apt-get install clang lld"
	clang, err := exec.LookPath("clang")
	if err != nil {
		return "", &MissingError{Tool: "clang", Why: "to compile C to WebAssembly", Get: get}
	}
	if _, err := exec.LookPath("wasm-ld"); err != nil {
		return "", &MissingError{Tool: "wasm-ld", Why: "to link WebAssembly", Get: get}
	}
	return clang, nil
}

// guestC compiles the C files of the directory and its src, with the SDK of
// its subdirectory weir or, without one, of this program.
func guestC(ctx context.Context, c Config) error {
	clang, err := findClang()
	if err != nil {
		return err
	}
	sdk, remove, err := sdkC(c.Dir)
	if err != nil {
		return err
	}
	defer remove()
	sources, err := sourcesC(c.Dir)
	if err != nil {
		return err
	}
	args := []string{
		"--target=wasm32", "-std=c11", "-Os", "-mbulk-memory", "-Wall", "-Wextra", "-Wno-unused-parameter", "-nostdlib", "-fvisibility=hidden", "-I", sdk,
		"-Wl,--no-entry", "-Wl,-z,stack-size=32768", "-o", c.Output,
	}
	if c.Debug {
		args = append(args, "-g")
	} else {
		args = append(args, "-Wl,--strip-all")
	}
	args = append(append(args, sources...), filepath.Join(sdk, "weir.c"))
	_, err = run(ctx, c.Dir, nil, clang, args...)
	return err
}

// sourcesC are the C files of a guest.
func sourcesC(dir string) ([]string, error) {
	var all []string
	for _, pattern := range []string{"*.c", "src/*.c"} {
		files, err := filepath.Glob(filepath.Join(escape(dir), pattern))
		if err != nil {
			return nil, fmt.Errorf("build: %w", err)
		}
		all = append(all, files...)
	}
	return all, nil
}

// sdkC returns the directory of the SDK for a guest: its own, or one that is
// removed by the function returned.
func sdkC(dir string) (sdk string, remove func(), err error) {
	sdk = filepath.Join(dir, "weir")
	if _, err := os.Stat(filepath.Join(sdk, "weir.h")); err == nil {
		return sdk, func() {}, nil
	}
	if sdk, err = os.MkdirTemp("", "weir-sdk-"); err != nil {
		return "", nil, fmt.Errorf("build: %w", err)
	}
	remove = func() { _ = os.RemoveAll(sdk) } // what is left is the system's to clear
	for _, name := range []string{"weir.h", "weir.c", "weir_test.h"} {
		data, err := weir.Sources().Open("sdk/c/" + name)
		if err == nil {
			err = copyTo(filepath.Join(sdk, name), data)
		}
		if err != nil {
			remove()
			return "", nil, fmt.Errorf("build: %w", err)
		}
	}
	return sdk, remove, nil
}
