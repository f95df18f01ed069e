package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/rest"
)

// Modules finds the module of a name, loaded with settings. Its error says why there is
// none; it is wrapped by that of CompileStrategy.
type Modules func(name string, settings json.RawMessage) (Guest, error)

// CompiledStrategy are the layers of a Strategy object. It is immutable.
type CompiledStrategy struct {
	layers []compiledLayer
}

// compiledLayer is a CEL layer, or a module.
type compiledLayer struct {
	subresources []string
	cel          *CELLayer
	guest        Guest
}

// CompileStrategy makes the layers of a Strategy. All that is wrong with spec is in the
// error, as policies.Issues whose paths begin with spec; the errors of modules are joined
// to them.
func CompileStrategy(engine policies.Engine, spec *v1alpha1.StrategySpec, modules Modules) (*CompiledStrategy, error) {
	var (
		out    CompiledStrategy
		issues policies.Issues
		errs   []error
		names  = map[string]bool{}
	)
	issue := func(path, format string, args ...any) {
		issues = append(issues, policies.Issue{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	if spec.Resource == "" {
		issue("spec.resource", "a resource is required")
	}
	for i := range spec.Layers {
		layer := &spec.Layers[i]
		path := fmt.Sprintf("spec.layers[%d]", i)
		switch {
		case layer.Name == "":
			issue(path+".name", "a name is required")
		case names[layer.Name]:
			issue(path+".name", "%q is used by another layer", layer.Name)
		}
		names[layer.Name] = true
		compiled := compiledLayer{subresources: layer.Subresources}
		if len(compiled.subresources) == 0 {
			compiled.subresources = []string{""}
		}
		switch {
		case (layer.CEL == nil) == (layer.Module == nil):
			issue(path, "exactly one of cel and module is required")
			continue
		case layer.CEL != nil:
			l, err := NewCELLayer(engine, layer.Name, path+".cel", layer.CEL)
			if found, ok := err.(policies.Issues); ok { //nolint:errorlint // that is the contract
				issues = append(issues, found...)
			} else if err != nil {
				errs = append(errs, err)
			}
			compiled.cel = l
		default:
			guest, err := modules(layer.Module.Name, layer.Module.Settings.Raw)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s.module: %w", path, err))
			}
			compiled.guest = guest
		}
		out.layers = append(out.layers, compiled)
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(append([]error{issues.Err()}, errs...)...)
	case len(issues) > 0:
		return nil, issues
	}
	return &out, nil
}

// Layers returns the layers that take part in writes of a subresource, in order: "" is
// the object itself.
func (s *CompiledStrategy) Layers(subresource string) []rest.Layer {
	var layers []rest.Layer
	for _, l := range s.layers {
		switch {
		case !slices.Contains(l.subresources, subresource):
		case l.cel != nil:
			layers = append(layers, l.cel)
		default:
			layers = append(layers, NewModuleLayer(l.guest, subresource))
		}
	}
	return layers
}
