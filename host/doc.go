// Package host runs guests: WebAssembly modules of the contract in package
// abi. It is the only package that knows the engine, wazero.
//
//	rt, err := host.NewRuntime(host.Config{})
//	m, err := rt.Load(ctx, wasm, host.ModuleConfig{Name: "quota"})
//	res, err := m.Call(ctx, &host.Call{Op: abi.OpValidateCreate, Meta: meta, Object: object})
//
// A [Module] is an artefact with its settings, ready to be called from any
// number of goroutines. Each call runs in a guest, an instance of the module,
// whose memory and globals are put back to what they were after it was
// configured before it serves another: nothing a guest does outlives a call,
// not even a trap.
//
// A call is bounded in instructions (fuel), time, memory, call depth, output
// and log; what a guest is told depends on its input only. Its errors are of
// type [Error] with a [Class].
package host
