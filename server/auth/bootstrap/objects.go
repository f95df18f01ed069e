package bootstrap

import (
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
)

//go:embed *.yaml
var files embed.FS

// Objects returns all default roles and bindings, each role before the bindings to it.
func Objects() ([]*document.Document, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	lists := make([][]*document.Document, len(names))
	errs := make([]error, len(names))
	var reading sync.WaitGroup
	for i, name := range names {
		reading.Go(func() { lists[i], errs[i] = read(name) })
	}
	reading.Wait()
	var roles, bindings []*document.Document
	for i := range names {
		if errs[i] != nil {
			return nil, fmt.Errorf("bootstrap %s: %w", names[i], errs[i])
		}
		for _, obj := range lists[i] {
			if obj.Get("roleRef").Exists() {
				bindings = append(bindings, obj)
			} else {
				roles = append(roles, obj)
			}
		}
	}
	return append(roles, bindings...), nil
}

func read(name string) ([]*document.Document, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	list, err := document.Parse(raw)
	if err != nil {
		return nil, err
	}
	var out []*document.Document
	for _, item := range list.Get("items").Elements() {
		obj := item.Document()
		if obj.Get("rules").Kind() == document.Null { // of an aggregated role
			if obj, err = obj.Edit().Delete("rules").Document(); err != nil {
				return nil, err
			}
		}
		out = append(out, obj)
	}
	return out, nil
}
