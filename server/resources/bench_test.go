package resources

import "testing"

func BenchmarkBuiltin(b *testing.B) {
	for b.Loop() {
		if _, err := Builtin(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidationSchemaDeployment(b *testing.B) {
	for b.Loop() {
		set, err := Builtin()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := set.ValidationSchema("io.k8s.api.apps.v1.Deployment"); err != nil {
			b.Fatal(err)
		}
	}
}
