package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	sources "weir.dev/weir"
	"weir.dev/weir/sdk/build"
)

func moduleInitCommand() *cobra.Command {
	var dir, language string
	command := &cobra.Command{
		Use:   "init NAME [--lang go|assemblyscript|c|rust]",
		Short: "Begin a module: sources, cases, objects and a README",
		Long: `Begin a module in a new directory: a small policy for Deployments, its cases, the
objects that put it in force, a README, and in the subdirectory weir the SDK, so that
it builds without this program's sources and without a package from a registry. (For
AssemblyScript, npm fetches the compiler.)`,
		Example: "  weir module init quota --lang rust\n  weir module test quota",
		Args:    exactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if dir == "" {
				dir = args[0]
			}
			files, err := template(args[0], build.Language(language))
			if err != nil {
				return err
			}
			if err := writeFiles(dir, files); err != nil {
				return err
			}
			out := command.OutOrStdout()
			fmt.Fprintf(out, "%s is a module in %s. Next:\n\n  weir module test %s\n\n", dir, languageName(build.Language(language)), dir)
			if missing := build.Missing(command.Context(), build.Language(language)); missing != nil {
				fmt.Fprintf(out, "%s is not installed yet: %s\n", missing.Tool, missing.Get)
			}
			fmt.Fprintf(out, "%s says how to put it in force.\n", filepath.Join(dir, "README.md"))
			return nil
		},
	}
	command.Flags().StringVar(&language, "lang", string(build.Go), "language: go, assemblyscript, c or rust")
	command.Flags().StringVar(&dir, "dir", "", "directory to write, which must not exist or be empty (default: NAME)")
	return command
}

func languageName(l build.Language) string {
	switch l {
	case build.C:
		return "C"
	case build.Rust:
		return "Rust"
	case build.AssemblyScript:
		return "AssemblyScript"
	}
	return "Go"
}

// What the example is called, and where it has the SDK.
const (
	exampleDir  = "examples/guard"
	exampleName = "guard"
)

var (
	nameWord  = regexp.MustCompile(`\b` + exampleName + `\b`)
	nameValid = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
)

// template returns the files of a new module by their paths.
func template(name string, language build.Language) (map[string][]byte, error) {
	switch {
	case !nameValid.MatchString(name) || len(name) > 40 || name == "weir":
		return nil, fmt.Errorf("name %q: use lower-case letters, digits and single dashes, at most 40", name)
	case !slices.Contains(build.Languages(), language):
		return nil, fmt.Errorf("--lang %q: give go, assemblyscript, c or rust", language)
	}
	files := map[string][]byte{}
	own, common := path.Join(exampleDir, string(language)), exampleDir
	err := fs.WalkDir(sources.Sources(), common, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rest, isOwn := strings.CutPrefix(file, own+"/")
		if !isOwn {
			rest = strings.TrimPrefix(file, common+"/")
			first, _, nested := strings.Cut(rest, "/")
			if nested && first != "cases" {
				return nil // of another language
			}
		}
		data, err := fs.ReadFile(sources.Sources(), file)
		if err != nil {
			return err
		}
		files[nameWord.ReplaceAllString(rest, name)] = nameWord.ReplaceAll(data, []byte(name))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return files, addSDK(files, name, language)
}

// addSDK adds the SDK below weir, and has the module use it.
func addSDK(files map[string][]byte, name string, language build.Language) error {
	replace := func(file, old, new string) error {
		if !bytes.Contains(files[file], []byte(old)) {
			return fmt.Errorf("template: %s has no %q", file, old)
		}
		files[file] = bytes.ReplaceAll(files[file], []byte(old), []byte(new))
		return nil
	}
	// Where the README has a server run, its keys are in weir-data.
	const made = "/*.wasm\n/modules/\n/weir-data/\n"
	files[".gitignore"] = []byte(made)
	switch language {
	case build.C:
		files[".gitignore"] = []byte(made + "/test/hooks_test\n")
		return copySources(files, "sdk/c", "weir")
	case build.Rust:
		files[".gitignore"] = []byte(made + "/target/\n")
		return errors.Join(copySources(files, "sdk/rust", "weir"), replace("Cargo.toml", "../../../sdk/rust", "weir"))
	case build.AssemblyScript:
		files[".gitignore"] = []byte(made + "/build/\n/node_modules/\n")
		return errors.Join(copySources(files, "sdk/assemblyscript", "weir"), replace("package.json", "file:../../../sdk/assemblyscript", "file:weir"))
	}
	mod, err := fs.ReadFile(sources.Sources(), "go.mod")
	if err != nil {
		return err
	}
	version := regexp.MustCompile(`(?m)^go .*$`).Find(mod)
	files["go.mod"] = fmt.Appendf(nil, "module example.com/%s\n\n%s\n\nrequire weir.dev/weir v0.0.0\n\nreplace weir.dev/weir => ./weir\n", name, version)
	files["weir/go.mod"] = fmt.Appendf(nil, "module weir.dev/weir\n\n%s\n", version)
	return errors.Join(copySources(files, "abi", "weir/abi"), copySources(files, "sdk/go", "weir/sdk/go"))
}

// copySources copies a directory of this project, its Go tests apart.
func copySources(files map[string][]byte, from, to string) error {
	license, err := fs.ReadFile(sources.Sources(), "LICENSE")
	if err != nil {
		return err
	}
	files["weir/LICENSE"] = license
	return fs.WalkDir(sources.Sources(), from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(sources.Sources(), file)
		files[to+strings.TrimPrefix(file, from)] = data
		return err
	})
}

// writeFiles writes into a directory that is not there or empty.
func writeFiles(dir string, files map[string][]byte) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: give another --dir", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, data := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
