package cases

import (
	"context"
	"errors"
	"io/fs"

	"weir.dev/weir/host"
)

// T is what is needed of a *testing.T, which is S: the command runs cases too, and does not link package testing.
type T[S any] interface {
	Helper()
	Run(name string, f func(S)) bool
	Error(args ...any)
	Fatal(args ...any)
	Context() context.Context
}

// Test runs every case of a directory as a subtest, on a module of its own.
func Test[S T[S]](t S, fsys fs.FS, dir string, wasm []byte, config host.ModuleConfig) {
	t.Helper()
	suites, err := Load(fsys, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(suites) == 0 {
		t.Fatal("there are no cases in " + dir)
	}
	runtime, err := host.NewRuntime(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	runner := NewRunner(runtime, wasm, config)
	defer func() {
		if err := errors.Join(runner.Close(context.Background()), runtime.Close(context.Background())); err != nil {
			t.Error(err)
		}
	}()
	for _, suite := range suites {
		for _, c := range suite.Cases {
			t.Run(c.Name, func(t S) {
				outcome, err := runner.Run(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				for _, problem := range outcome.Problems {
					t.Error(problem)
				}
			})
		}
	}
}
