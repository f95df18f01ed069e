package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Native runs the tests of a guest on this machine, without WebAssembly: go test,
// cargo test, npm test, or of C each program in the directory test. The error is
// an [Error] with what they printed, or a [MissingError].
func Native(ctx context.Context, dir string) error {
	language, err := Detect(dir)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	switch language {
	case C:
		return nativeC(ctx, dir)
	case Rust:
		return nativeRust(ctx, dir)
	case AssemblyScript:
		return nativeAssemblyScript(ctx, dir)
	}
	_, err = run(ctx, dir, nil, "go", "test", ".")
	return err
}

// nativeC compiles each program in test with the sources of the guest and of the
// SDK, and runs it.
func nativeC(ctx context.Context, dir string) error {
	compiler, err := exec.LookPath("clang")
	if err != nil {
		if compiler, err = exec.LookPath("cc"); err != nil {
			return &MissingError{Tool: "clang", Why: "to compile C", Get: "apt-get install clang"}
		}
	}
	sdk, remove, err := sdkC(dir)
	if err != nil {
		return err
	}
	defer remove()
	into, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	defer func() { _ = os.RemoveAll(into) }() // what is left is the system's to clear
	sources, err := sourcesC(dir)
	if err != nil {
		return err
	}
	programs, err := filepath.Glob(filepath.Join(escape(dir), "test", "*.c"))
	if err != nil {
		return fmt.Errorf("build: %w", err)
	}
	for _, program := range programs {
		out := filepath.Join(into, filepath.Base(program)+".test")
		args := []string{"-std=c11", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-I", sdk, "-o", out, program}
		args = append(append(args, sources...), filepath.Join(sdk, "weir.c"))
		if _, err := run(ctx, dir, nil, compiler, args...); err != nil {
			return err
		}
		if _, err := run(ctx, dir, nil, out); err != nil {
			return err
		}
	}
	return nil
}

// nativeRust tests with the toolchain that the guest is built with: the cargo,
// the compiler and the documentation's tester have to be of one.
func nativeRust(ctx context.Context, dir string) error {
	tools, err := findRust(ctx)
	if err != nil {
		return err
	}
	env := []string{"RUSTC=" + tools.rustc}
	if rustdoc := filepath.Join(filepath.Dir(tools.rustc), "rustdoc"); executable(rustdoc) {
		env = append(env, "RUSTDOC="+rustdoc)
	}
	_, err = run(ctx, dir, env, tools.cargo, "test", "--offline", "--quiet")
	return err
}

func executable(file string) bool {
	_, err := exec.LookPath(file)
	return err == nil
}

// nativeAssemblyScript runs the script test of package.json, which builds.
func nativeAssemblyScript(ctx context.Context, dir string) error {
	tools, err := findNode()
	if err != nil {
		return err
	}
	if err := tools.install(ctx, Config{Dir: dir}); err != nil {
		return err
	}
	_, err = run(ctx, dir, nil, tools.npm, "test", "--silent")
	return err
}
