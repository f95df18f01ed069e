package rego

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/abi/document"
)

// Bounds of a bundle.
const (
	maxBundleBytes   = 4 << 20  // packed
	maxUnpackedBytes = 16 << 20 // of all files
	maxBundleFiles   = 1024
)

// Bundle is what a bundle of the Open Policy Agent holds: a tar.gz of modules, data.json
// files, and a .manifest.
type Bundle struct {
	// Digest is sha256:<hex> of the packed bytes.
	Digest string
	// Revision that the manifest gives.
	Revision string
	Modules  []Module
	Data     *document.Document
}

// Source returns what a bundle has to compile.
func (b *Bundle) Source(path, entrypoint string) *Source {
	return &Source{Path: path, Modules: b.Modules, Data: b.Data, Entrypoint: entrypoint}
}

// ReadBundle unpacks a bundle. digest is what its bytes must have, sha256:<hex>, or empty.
// Tests (_test.rego) and what OPA compiled (policy.wasm) are left out.
func ReadBundle(packed []byte, digest string) (*Bundle, error) {
	if len(packed) > maxBundleBytes {
		return nil, fmt.Errorf("bundle: %d bytes are more than %d", len(packed), maxBundleBytes)
	}
	sum := sha256.Sum256(packed)
	b := &Bundle{Digest: "sha256:" + hex.EncodeToString(sum[:])}
	if digest != "" && digest != b.Digest {
		return nil, fmt.Errorf("bundle: digest is %s, not %s", b.Digest, digest)
	}
	files, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	if err := b.fill(files); err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	return b, nil
}

type file struct {
	name string // clean, without a leading slash
	data []byte
}

// unpack reads the regular files of a tar.gz, in their order.
func unpack(packed []byte) ([]file, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("not a tar.gz: %w", err)
	}
	var files []file
	seen, left := map[string]bool{}, int64(maxUnpackedBytes)
	// What is between files counts too: a reader that is at its limit ends the archive.
	limited := &io.LimitedReader{R: z, N: 2 * maxUnpackedBytes}
	for r := tar.NewReader(limited); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) && limited.N > 0 {
			return files, nil
		}
		if limited.N <= 0 {
			return nil, fmt.Errorf("unpacks to more than %d bytes", maxUnpackedBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("not a tar.gz: %w", err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeReg:
		default:
			return nil, fmt.Errorf("%q is neither a file nor a directory", h.Name)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "/")
		if name == "" || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsAny(name, "\\\x00") {
			return nil, fmt.Errorf("%q is not a path within the bundle", h.Name)
		}
		if seen[name] {
			return nil, fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
		if len(seen) > maxBundleFiles {
			return nil, fmt.Errorf("more than %d files", maxBundleFiles)
		}
		if left -= h.Size; left < 0 {
			return nil, fmt.Errorf("unpacks to more than %d bytes", maxUnpackedBytes)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, file{name, data})
	}
}

// fill takes what is known of the files.
func (b *Bundle) fill(files []file) error {
	var manifest *document.Document
	data, err := document.FromValue(map[string]any{})
	if err != nil {
		return err
	}
	edit, edits := data.Edit(), 0
	var dataPaths [][]string
	for _, f := range files {
		switch base := path.Base(f.name); {
		case f.name == ".manifest":
			if manifest, err = document.Parse(f.data); err != nil {
				return fmt.Errorf(".manifest: %w", err)
			}
		case strings.HasSuffix(base, "_test.rego"):
		case strings.HasSuffix(base, ".rego"):
			b.Modules = append(b.Modules, Module{Name: f.name, Text: string(f.data)})
		case base == "data.yaml" || base == "data.yml":
			return fmt.Errorf("%s: data must be JSON", f.name)
		case base == "data.json":
			part, err := document.Parse(f.data)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if part.Root().Kind() != document.Object {
				return fmt.Errorf("%s: data must be an object", f.name)
			}
			var at []string
			if dir := path.Dir(f.name); dir != "." {
				at = strings.Split(dir, "/")
			}
			for name, v := range part.Root().Members() {
				to := append(at[:len(at):len(at)], name)
				dataPaths = append(dataPaths, to)
				edit.Set(v, to...)
				edits++
			}
		}
	}
	if edits > 0 {
		if data, err = edit.Document(); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	b.Data = data
	if len(b.Modules) == 0 {
		return errors.New("it has no modules in Rego; a module that OPA compiled (policy.wasm) is not used, since CompileWasm makes one of the text")
	}
	return b.applyManifest(manifest, dataPaths)
}

// applyManifest holds the bundle to its manifest: its roots own all that it has.
func (b *Bundle) applyManifest(manifest *document.Document, dataPaths [][]string) error {
	if manifest == nil {
		return nil
	}
	b.Revision = strings.Clone(manifest.Get("revision").String())
	var roots []string
	for _, r := range manifest.Get("roots").Elements() {
		roots = append(roots, strings.Trim(r.String(), "/"))
	}
	owned := func(at string) bool {
		if len(roots) == 0 {
			return true
		}
		for _, r := range roots {
			if r == "" || at == r || strings.HasPrefix(at, r+"/") {
				return true
			}
		}
		return false
	}
	for _, m := range b.Modules {
		if at, ok := packageOf(m); ok && !owned(at) {
			return fmt.Errorf("%s: package %s is outside the roots of the manifest", m.Name, at)
		}
	}
	for _, p := range dataPaths {
		if at := strings.Join(p, "/"); !owned(at) {
			return fmt.Errorf("data %s is outside the roots of the manifest", at)
		}
	}
	return nil
}

// packageOf gives the path of a module's package. A module that does not parse is left to
// Compile, which says why.
func packageOf(m Module) (string, bool) {
	parsed, err := ast.ParseModuleWithOpts(m.Name, m.Text, ast.ParserOptions{RegoVersion: ast.RegoV1})
	if err != nil || parsed == nil {
		return "", false
	}
	var names []string
	for _, t := range parsed.Package.Path[1:] {
		name, _ := t.Value.(ast.String)
		names = append(names, string(name))
	}
	return strings.Join(names, "/"), true
}
