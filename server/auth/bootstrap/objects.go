package bootstrap

import (
	_ "embed"
	"fmt"

	"weir.dev/weir/abi/document"
)

// objects is *.yaml compiled, one object a line: a start does not wait for a YAML parser.
//
//go:generate go test -run TestCompiled -rewrite .
//go:embed objects.json
var objects []byte

// Objects returns all default roles and bindings, each role before the bindings to it.
func Objects() ([]*document.Document, error) {
	list, err := document.Parse(objects)
	if err != nil {
		return nil, fmt.Errorf("bootstrap objects: %w", err)
	}
	out := make([]*document.Document, 0, list.Root().Len())
	for _, item := range list.Root().Elements() {
		out = append(out, item.Document())
	}
	return out, nil
}
