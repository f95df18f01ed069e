package cel

import (
	"fmt"
	"runtime"
	"testing"

	"weir.dev/weir/policies"
)

// TestMemoryOfAPolicy: what a compiled policy holds is its own, not an environment and all functions of CEL once more. Each
// garbage collection follows it, whether the policy is asked or not.
func TestMemoryOfAPolicy(t *testing.T) {
	e, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	const n, most = 100, 16 << 10
	programs := make([]policies.Program, n)
	compile := func(i int) policies.Program {
		p, err := e.Compile(&policies.Source{Inputs: policies.Inputs(), Authorizer: true, Admission: true,
			Variables: []policies.Variable{{Name: "named", Expression: policies.Expression{Text: "object.metadata.name"}}},
			Expressions: []policies.Expression{{Want: policies.Bool,
				Text: fmt.Sprintf("object.spec.replicas <= 500 && variables.named != 'deny-%d'", i)}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	compile(0)
	before := heapLive()
	for i := range programs {
		programs[i] = compile(i)
	}
	held := int64(heapLive()-before) / n
	runtime.KeepAlive(programs)
	if t.Logf("%d bytes a policy", held); held > most {
		t.Errorf("a compiled policy holds %d bytes, more than %d", held, most)
	}
}

func heapLive() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
