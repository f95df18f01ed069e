package server

import (
	"fmt"

	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/rest"
)

// typeChecker compares expressions in CEL with the published schemas of kinds.
type typeChecker struct{ engine *cel.Engine }

var _ loader.TypeChecker = typeChecker{}

// CheckTypes implements loader.TypeChecker.
func (c typeChecker) CheckTypes(src *policies.Source, object, params rest.OpenAPISource) ([]string, error) {
	objectType, err := typeOf(object)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	paramsType, err := typeOf(params)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return c.engine.Check(src, objectType, paramsType)
}

func typeOf(schema rest.OpenAPISource) (*cel.ObjectType, error) {
	if schema == nil {
		return nil, nil
	}
	name, definitions, err := schema.Definitions()
	if err != nil {
		return nil, err
	}
	return cel.NewObjectType(name, definitions)
}
