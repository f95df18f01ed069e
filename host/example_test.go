package host_test

import (
	"context"
	"fmt"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/hosttest"
)

func Example() {
	ctx := context.Background()
	rt, err := host.NewRuntime(host.Config{})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)

	wasm := hosttest.Patcher(`[{"op":"add","path":"/spec/replicas","value":1}]`)
	m, err := rt.Load(ctx, wasm, host.ModuleConfig{Name: "replicas"})
	if err != nil {
		panic(err)
	}
	meta, err := host.NewMeta(abi.Meta{UID: "1", Operation: abi.OperationCreate, Time: "2026-01-02T03:04:05Z"})
	if err != nil {
		panic(err)
	}
	res, err := m.Call(ctx, &host.Call{
		Op:     abi.OpPrepareForCreate,
		Meta:   meta,
		Object: document.FromCanonical([]byte(`{"spec":{}}`)),
	})
	fmt.Println(string(res.Object.Bytes()), err)

	_, err = m.Call(ctx, &host.Call{Op: abi.OpConvert})
	fmt.Println(err)
	// Output:
	// {"spec":{"replicas":1}} <nil>
	// module[replicas] hook[convert]: the module has no such hook
}
