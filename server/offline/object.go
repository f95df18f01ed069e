package offline

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

// Object is one object of a file.
type Object struct {
	// FS and File are where it stands; Line, counted from 1, is where its text begins.
	FS   fs.FS
	File string
	Line int
	// Root is the directory that FS is of, for whoever shows File; "": it is not known.
	Root string
	// Text is the YAML that it was read of.
	Text     []byte
	Document *document.Document
}

// String names the object for errors: pods.yaml: Pod "web".
func (o *Object) String() string {
	return fmt.Sprintf("%s: %s %q", filepath.Join(o.Root, filepath.FromSlash(o.File)), o.kind(), o.Document.Get("metadata", "name").String())
}

func (o *Object) kind() string { return o.Document.Get("kind").String() }

// maxFileBytes bounds a file of objects.
const maxFileBytes = 16 << 20

// Read reads the objects of a file: YAML with any number of documents, or JSON. A v1 List is what it holds.
func Read(fsys fs.FS, name string) ([]Object, error) { return read(fsys, name, false) }

// read leaves out what is no object where lenient is set.
func read(fsys fs.FS, name string, lenient bool) ([]Object, error) {
	text, err := fs.ReadFile(fsys, name)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFileBytes:
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFileBytes)
	}
	var list []Object
	for _, part := range split(text) {
		obj := Object{FS: fsys, File: name, Line: part.line, Text: part.text}
		raw, err := yaml.YAMLToJSONStrict(part.text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, part.line, err)
		}
		if string(raw) == "null" { // comments alone
			continue
		}
		if obj.Document, err = document.Parse(raw); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, part.line, err)
		}
		if obj.Document.Root().Kind() != document.Object || obj.kind() == "" {
			if lenient {
				continue
			}
			return nil, fmt.Errorf("%s:%d: not an object: it has no kind", name, part.line)
		}
		if obj.kind() != "List" {
			list = append(list, obj)
			continue
		}
		for _, item := range obj.Document.Get("items").Elements() {
			of := obj
			of.Document = item.Document()
			list = append(list, of)
		}
	}
	return list, nil
}

type textPart struct {
	text []byte
	line int
}

// split cuts YAML at its separators of documents.
func split(text []byte) []textPart {
	var parts []textPart
	current := textPart{line: 1}
	line := 1
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte("---")) && strings.TrimSpace(strings.SplitN(string(l[3:]), "#", 2)[0]) == "" {
			parts = append(parts, current)
			current = textPart{line: line + 1}
		} else {
			current.text = append(current.text, l...)
		}
		line++
	}
	return append(parts, current)
}

// ReadDir reads the files of a directory that hold objects: *.yaml, *.yml and *.json. Where deep is set, those of
// directories below it are read too, but for directories named cases and those whose names begin with a dot, and what is
// no object is left out.
func ReadDir(fsys fs.FS, dir string, deep bool) ([]Object, error) {
	var names []string
	err := fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != dir && (!deep || d.Name() == "cases" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []Object
	var errs []error
	for _, name := range names {
		objects, err := read(fsys, name, deep)
		errs = append(errs, err)
		list = append(list, objects...)
	}
	return list, errors.Join(errs...)
}
