package extension_test

import (
	"io/fs"
	"path"
	"testing"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/policies/cel"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/extensiontest"
)

func newEngine(t testing.TB, c cel.Config) *cel.Engine {
	t.Helper()
	engine, err := cel.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func libraryStrategy(t testing.TB, file string, c cel.Config) *extension.CompiledStrategy {
	t.Helper()
	data, err := fs.ReadFile(library.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	var strategy v1alpha1.Strategy
	if err := yaml.UnmarshalStrict(data, &strategy); err != nil {
		t.Fatal(err)
	}
	compiled, err := extension.CompileStrategy(newEngine(t, c), &strategy.Spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// TestLibrary runs the cases of every strategy in the library, metered and not.
func TestLibrary(t *testing.T) {
	files, err := library.Strategies()
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		suites, err := policytest.Load(library.FS, path.Join(path.Dir(file), "cases"))
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]cel.Config{"metered": {AlwaysMeter: true}, "bounded": {}} {
			t.Run(path.Dir(file)+"/"+name, func(t *testing.T) {
				layers := libraryStrategy(t, file, c).Layers("")
				policytest.Run(t, suites, extensiontest.Subject(layers...))
			})
		}
	}
}
