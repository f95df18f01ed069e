package resources

import (
	"embed"
	"io/fs"
)

//go:embed packs.json schemas/*.json overlays/*.yaml
var builtin embed.FS

// Builtin loads the resources that every server has.
func Builtin() (*Set, error) { return Load(builtin) }

// BuiltinFS is the file system that Builtin loads, for Load with others
// beside it.
func BuiltinFS() fs.FS { return builtin }
