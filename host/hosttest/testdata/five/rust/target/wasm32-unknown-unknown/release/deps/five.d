/work/main/host/hosttest/testdata/five/rust/target/wasm32-unknown-unknown/release/deps/five.wasm: src/lib.rs

/work/main/host/hosttest/testdata/five/rust/target/wasm32-unknown-unknown/release/deps/libfive.rlib: src/lib.rs

/work/main/host/hosttest/testdata/five/rust/target/wasm32-unknown-unknown/release/deps/five.d: src/lib.rs

src/lib.rs:
