package cel

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"weir.dev/weir/abi/document"
)

// maxDepth of a value that is converted to JSON.
const maxDepth = 200

// native gives what document.FromValue takes for a CEL value. Integers stay exact, which
// they do not on cel-go's own way to JSON.
func native(v ref.Val, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case *mapVal:
		return v.v, nil
	case *listVal:
		return v.v, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), nil
	case types.Null:
		return nil, nil //nolint:nilnil // JSON null is a value here
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil //nolint:nilnil // as above
		}
		return native(v.GetValue(), depth+1)
	case *dynamic.ObjectVal:
		return nativeObject(v, depth)
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			e, err := native(it.Next(), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		return list, nil
	case traits.Mapper:
		m := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			name, ok := key.(types.String)
			if !ok {
				return nil, fmt.Errorf("key %v of a map is of type %s, not string", key, key.Type().TypeName())
			}
			e, err := native(v.Get(key), depth+1)
			if err != nil {
				return nil, err
			}
			m[string(name)] = e
		}
		return m, nil
	}
	switch v := v.ConvertToType(types.StringType).(type) {
	case types.String: // timestamps, durations, bytes
		return string(v), nil
	default:
		return nil, fmt.Errorf("a value of type %s has no JSON", v.Type().TypeName())
	}
}

// nativeObject converts Object{…}. Its fields can only be had as Go values, in which
// values of documents appear as what their Value method gives.
func nativeObject(v *dynamic.ObjectVal, depth int) (any, error) {
	fields, ok := v.Value().(map[string]any)
	if !ok {
		if err, ok := v.Value().(error); ok {
			return nil, err
		}
		return nil, fmt.Errorf("object of type %s has no fields", v.Type().TypeName())
	}
	return plain(fields, depth)
}

// plain replaces CEL values within Go values.
func plain(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case ref.Val:
		return native(v, depth)
	case map[string]any:
		for name, e := range v {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			v[name] = p
		}
		return v, nil
	case []any:
		for i, e := range v {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = p
		}
		return v, nil
	case []ref.Val:
		return native(types.NewRefValList(types.DefaultTypeAdapter, v), depth)
	case map[ref.Val]ref.Val:
		return native(types.NewRefValMap(types.DefaultTypeAdapter, v), depth)
	case nil, bool, string, int, int64, uint64, float64:
		return v, nil
	}
	return native(types.DefaultTypeAdapter.NativeToValue(v), depth)
}

// toDocument converts any value.
func toDocument(v ref.Val) (*document.Document, error) {
	n, err := native(v, 0)
	if err != nil {
		return nil, err
	}
	return document.FromValue(n)
}

// applyConfiguration converts Object{…} and refuses one whose types do not match the
// places of its fields, such as Object{spec: Object.metadata{}}.
func applyConfiguration(v ref.Val) (*document.Document, error) {
	obj, ok := v.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("value is of type %s, not Object", v.Type().TypeName())
	}
	if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	return toDocument(obj)
}

// jsonPatch converts a list of JSONPatch{…}.
func jsonPatch(v ref.Val) (*document.Document, error) {
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("value is of type %s, not a list of JSONPatch", v.Type().TypeName())
	}
	ops := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		p, ok := it.Next().(*mutation.JSONPatchVal)
		if !ok {
			return nil, fmt.Errorf("element %d is not a JSONPatch", len(ops))
		}
		op := map[string]any{"op": p.Op, "path": p.Path}
		if p.From != "" {
			op["from"] = p.From
		}
		if p.Val != nil {
			if obj, ok := p.Val.(*dynamic.ObjectVal); ok {
				if err := obj.CheckTypeNamesMatchFieldPathNames(); err != nil {
					return nil, fmt.Errorf("element %d: type mismatch: %w", len(ops), err)
				}
			}
			value, err := native(p.Val, 0)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", len(ops), err)
			}
			op["value"] = value
		}
		ops = append(ops, op)
	}
	return document.FromValue(ops)
}
