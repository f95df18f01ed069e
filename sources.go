// Package weir holds the sources of the SDKs, and those of an example to begin
// with, so that the program can lay them beside a module that is written
// outside of this repository. Everything else is in the packages below.
package weir

import (
	"embed"
	"io/fs"
)

// sources is written by the linker.
//
//go:embed LICENSE go.mod
//go:embed abi/*.go abi/document/*.go abi/lookup/*.go
//go:embed sdk/go/*.go sdk/go/internal/codec/*.go sdk/go/weirtest/*.go
//go:embed sdk/c/weir.h sdk/c/weir.c sdk/c/weir_test.h
//go:embed sdk/rust/Cargo.toml sdk/rust/src
//go:embed sdk/assemblyscript/package.json sdk/assemblyscript/assembly sdk/assemblyscript/testing.mjs
//go:embed examples/guard/*.yaml examples/guard/cases
//go:embed examples/guard/go/main.go examples/guard/go/README.md examples/guard/go/hooks_test.go
//go:embed examples/guard/c/src examples/guard/c/test examples/guard/c/README.md
//go:embed examples/guard/rust/Cargo.toml examples/guard/rust/src examples/guard/rust/README.md
//go:embed examples/guard/assemblyscript/package.json examples/guard/assemblyscript/asconfig.json
//go:embed examples/guard/assemblyscript/assembly examples/guard/assemblyscript/test examples/guard/assemblyscript/README.md
var sources embed.FS

// Sources returns the contract, the SDKs and the example examples/guard in
// each language, by their paths in the repository.
func Sources() fs.FS { return sources }
