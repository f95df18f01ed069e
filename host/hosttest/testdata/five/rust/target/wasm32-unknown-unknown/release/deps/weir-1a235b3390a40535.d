/work/main/host/hosttest/testdata/five/rust/target/wasm32-unknown-unknown/release/deps/weir-1a235b3390a40535.rmeta: /work/main/sdk/rust/src/lib.rs /work/main/sdk/rust/src/context.rs /work/main/sdk/rust/src/error.rs /work/main/sdk/rust/src/hooks.rs /work/main/sdk/rust/src/json.rs /work/main/sdk/rust/src/lookup.rs /work/main/sdk/rust/src/module.rs /work/main/sdk/rust/src/object.rs /work/main/sdk/rust/src/sys.rs /work/main/sdk/rust/src/typed.rs

/work/main/host/hosttest/testdata/five/rust/target/wasm32-unknown-unknown/release/deps/libweir-1a235b3390a40535.rlib: /work/main/sdk/rust/src/lib.rs /work/main/sdk/rust/src/context.rs /work/main/sdk/rust/src/error.rs /work/main/sdk/rust/src/hooks.rs /work/main/sdk/rust/src/json.rs /work/main/sdk/rust/src/lookup.rs /work/main/sdk/rust/src/module.rs /work/main/sdk/rust/src/object.rs /work/main/sdk/rust/src/sys.rs /work/main/sdk/rust/src/typed.rs

/work/main/host/hosttest/testdata/five/rust/target/wasm32-unknown-unknown/release/deps/weir-1a235b3390a40535.d: /work/main/sdk/rust/src/lib.rs /work/main/sdk/rust/src/context.rs /work/main/sdk/rust/src/error.rs /work/main/sdk/rust/src/hooks.rs /work/main/sdk/rust/src/json.rs /work/main/sdk/rust/src/lookup.rs /work/main/sdk/rust/src/module.rs /work/main/sdk/rust/src/object.rs /work/main/sdk/rust/src/sys.rs /work/main/sdk/rust/src/typed.rs

/work/main/sdk/rust/src/lib.rs:
/work/main/sdk/rust/src/context.rs:
/work/main/sdk/rust/src/error.rs:
/work/main/sdk/rust/src/hooks.rs:
/work/main/sdk/rust/src/json.rs:
/work/main/sdk/rust/src/lookup.rs:
/work/main/sdk/rust/src/module.rs:
/work/main/sdk/rust/src/object.rs:
/work/main/sdk/rust/src/sys.rs:
/work/main/sdk/rust/src/typed.rs:
