package extension_test

import (
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/policies/policytest"
	"weir.dev/weir/server/rest"
)

// deployment is the base of the cases: a valid Deployment with its defaults.
func deployment(t testing.TB) *document.Document {
	t.Helper()
	suites, err := policytest.Load(library.FS, "deployment/cases")
	if err != nil {
		t.Fatal(err)
	}
	return suites[0].Cases[0].Object
}

func BenchmarkDeploymentStrategy(b *testing.B) {
	obj := deployment(b)
	bare, err := obj.Edit().Delete("spec", "strategy").Delete("spec", "replicas").Delete("spec", "progressDeadlineSeconds").Document()
	if err != nil {
		b.Fatal(err)
	}
	for name, c := range map[string]cel.Config{"metered": {AlwaysMeter: true}, "bounded": {}} {
		layer := libraryStrategy(b, "deployment/strategy.yaml", c).Layers("")[0]
		hooks := map[string]func(l rest.Layer) error{
			"default":          func(l rest.Layer) error { _, err := l.Default(b.Context(), bare); return err },
			"defaultAgain":     func(l rest.Layer) error { _, err := l.Default(b.Context(), obj); return err },
			"validate":         func(l rest.Layer) error { _, err := l.Validate(b.Context(), obj); return err },
			"validateUpdate":   func(l rest.Layer) error { _, err := l.ValidateUpdate(b.Context(), obj, obj); return err },
			"warningsOnCreate": func(l rest.Layer) error { _, err := l.WarningsOnCreate(b.Context(), obj); return err },
		}
		for hook, call := range hooks {
			b.Run(name+"/"+hook, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := call(layer); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCompileDeploymentStrategy(b *testing.B) {
	for b.Loop() {
		libraryStrategy(b, "deployment/strategy.yaml", cel.Config{})
	}
}
