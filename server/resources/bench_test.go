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

func BenchmarkCellReady(b *testing.B) {
	c := Column{Name: "Ready", Type: "string", Template: "{.status.readyReplicas ?? '0'}/{.spec.replicas ?? '0'}"}
	if err := c.Compile(); err != nil {
		b.Fatal(err)
	}
	obj := map[string]any{"spec": map[string]any{"replicas": int64(3)}, "status": map[string]any{"readyReplicas": int64(2)}}
	b.ReportAllocs()
	for b.Loop() {
		c.Cell(obj, noon)
	}
}
