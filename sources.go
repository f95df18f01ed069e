// Package weir holds the sources of the SDKs, so that the program can lay them
// beside a module that is written outside of this repository. Everything else
// is in the packages below.
package weir

import (
	"embed"
	"io/fs"
)

// sources is written by the linker.
//
//go:embed LICENSE
//go:embed abi/*.go
//go:embed sdk/c/weir.h sdk/c/weir.c
var sources embed.FS

// Sources returns the contract, the SDKs and the template of a module in each
// language, by their paths in the repository.
func Sources() fs.FS { return sources }
