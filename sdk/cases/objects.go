package cases

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
)

// sees sets what the call of a case can look up: the objects of the case, and those
// that are shared.
func (c *Case) sees(shared []*document.Document) error {
	objects, err := lookup.NewObjects(append(slices.Clone(shared), c.objects...)...)
	if err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	c.Call.Lookuper = objects
	return nil
}

// LoadObjects reads the objects of a file, or of all files *.yaml, *.yml and *.json
// of a directory: YAML documents and Lists, as kubectl apply takes them.
func LoadObjects(fsys fs.FS, name string) ([]*document.Document, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	files := []string{name}
	if info.IsDir() {
		files = nil
		for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
			found, err := fs.Glob(fsys, path.Join(name, pattern))
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
		slices.Sort(files)
	}
	var all []*document.Document
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		docs, err := ParseObjects(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, docs...)
	}
	return all, nil
}

// ParseObjects reads YAML documents and Lists.
func ParseObjects(data []byte) ([]*document.Document, error) {
	var all []*document.Document
	texts := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := texts.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		raw, err := utilyaml.ToJSON(text)
		if err != nil {
			return nil, err
		}
		if string(raw) == "null" {
			continue // nothing between two lines ---
		}
		d, err := document.Parse(raw)
		if err != nil {
			return nil, err
		}
		if d.Get("kind").String() != "List" {
			all = append(all, d)
			continue
		}
		for _, item := range d.Get("items").Elements() {
			all = append(all, item.Document())
		}
	}
}
