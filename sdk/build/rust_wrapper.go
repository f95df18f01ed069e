package build

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// rustWrapper writes a program for RUSTC_WRAPPER by which the same crates make the
// same module wherever they are. Cargo gives each crate a hash, from which the
// compiler makes the names of symbols and so the order of a module. For a crate
// outside of the directory that is built, as an SDK that several share, it is one
// of the path: the wrapper has it be the name and version of the crate. And it has
// the messages of panics not tell where crates are. file is empty where there is no
// shell. remove removes the program.
func rustWrapper(crates []crate) (file string, remove func(), err error) {
	remove = func() {}
	if runtime.GOOS == "windows" {
		return "", remove, nil
	}
	var local, remaps []string
	for _, c := range crates {
		remaps = append(remaps, quoted("--remap-path-prefix="+c.dir+"=/"+c.name))
		if c.local {
			local = append(local, quoted(c.dir))
		}
	}
	if len(local) == 0 {
		return "", remove, nil
	}
	before := os.Getenv("RUSTC_WRAPPER")
	if before != "" {
		before = quoted(before) + " "
	}
	dir, err := os.MkdirTemp("", "weir-rustc-")
	if err != nil {
		return "", nil, fmt.Errorf("build: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) } // what is left is the system's to clear
	file = filepath.Join(dir, "rustc")
	script := fmt.Sprintf(`#!/bin/sh
case $CARGO_MANIFEST_DIR in
%s)
	n=$#
	while [ $n -gt 0 ]; do
		argument=$1
		shift
		case $argument in
		metadata=*) argument="metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION" ;;
		esac
		set -- "$@" "$argument"
		n=$((n - 1))
	done
	;;
esac
exec %s"$@" %s
`, strings.Join(local, "|"), before, strings.Join(remaps, " "))
	if err := os.WriteFile(file, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		remove()
		return "", nil, fmt.Errorf("build: %w", err)
	}
	return file, remove, nil
}

// quoted quotes a word for the shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
