package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// V2 builds the OpenAPI v2 document of all parts, with what of their schemas that
// version can say. As V3, it leaves out a schema that cannot be had, and err says why.
func V2(parts []Part, version string) (raw []byte, err error) {
	defs := definitions{}
	paths := object{}
	var errs []error
	for _, p := range parts {
		kind, list, err := defs.add(p.Resource, p.Version)
		if err != nil {
			errs = append(errs, fmt.Errorf("schema of %s: %w", kind.GroupVersionKind, err))
		}
		for _, path := range pathsOf(p.Resource, p.Version, kind, list, defs) {
			paths[path.path] = path.v2()
		}
	}
	v2 := object{}
	for name, raw := range defs {
		var schema object
		if err := json.Unmarshal(raw, &schema); err != nil {
			errs = append(errs, fmt.Errorf("definition %s: %w", name, err))
			continue
		}
		v2[name] = schemaV2(schema)
	}
	raw, err = json.Marshal(object{
		"swagger":     "2.0",
		"info":        object{"title": "Kubernetes", "version": version},
		"paths":       paths,
		"definitions": v2,
	})
	return raw, errors.Join(append(errs, err)...)
}

func (p path) v2() object {
	item := object{}
	var parameters []object
	for _, name := range p.parameters {
		parameters = append(parameters, object{
			"name": name, "in": "path", "required": true, "type": "string", "uniqueItems": true, "description": pathParameterText(name),
		})
	}
	if len(parameters) > 0 {
		item["parameters"] = parameters
	}
	for _, op := range p.operations {
		item[op.method] = op.v2()
	}
	return item
}

func (o operation) v2() object {
	consumes := []string{"*/*"}
	if len(o.bodyTypes) > 0 {
		consumes = o.bodyTypes
	}
	out := object{
		"description":   o.description,
		"operationId":   o.id,
		"tags":          []string{tag(o.kind.GroupVersion())},
		"schemes":       []string{"https"},
		"consumes":      consumes,
		"produces":      []string{"application/json", "application/yaml"},
		extensionAction: o.action,
		extensionGVK:    o.kind.gvk(),
	}
	var parameters []object
	switch {
	case len(o.bodyTypes) > 0:
		parameters = append(parameters, object{"name": "body", "in": "body", "required": true, "schema": object{"type": "object"}})
	case o.body != nil:
		parameters = append(parameters, object{"name": "body", "in": "body", "required": true, "schema": o.body.refV2()})
	}
	for _, q := range o.query {
		parameters = append(parameters, object{
			"name": q.name, "in": "query", "type": q.typ, "uniqueItems": true, "description": q.description,
		})
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	response := func(description string) object {
		r := object{"description": description}
		if o.response != nil {
			r["schema"] = o.response.refV2()
		}
		return r
	}
	responses := object{"401": object{"description": "Unauthorized"}}
	switch {
	case o.refused:
		responses["405"] = object{"description": "Method Not Allowed"}
	case o.created, o.method == "put", o.method == "patch":
		responses["201"] = response("Created")
		fallthrough
	default:
		responses["200"] = response("OK")
	}
	out["responses"] = responses
	return out
}

func (k *kindOf) refV2() object {
	if k.definition == "" {
		return object{"type": "object"}
	}
	return object{"$ref": refV2 + k.definition}
}

// keywordsV2 are what a v2 schema may have; parsers of v2 refuse anything else.
func keywordsV2() []string {
	return []string{
		"$ref", "format", "title", "description", "default", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
		"exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties",
		"minProperties", "required", "enum", "type", "items", "properties", "additionalProperties", "readOnly",
	}
}

// schemaV2 reduces a v3 schema to v2. What is nullable loses its type, as upstream
// does, since v2 knows no null.
func schemaV2(in object) object {
	keywords := keywordsV2()
	var reduce func(in object) object
	reduceAny := func(v any) any {
		if o, ok := v.(object); ok {
			return reduce(o)
		}
		return v
	}
	reduce = func(in object) object {
		out := make(object, len(in))
		for key, value := range in {
			switch {
			case strings.HasPrefix(key, "x-"):
				out[key] = value
			case !slices.Contains(keywords, key):
			case key == "$ref":
				ref, _ := value.(string)
				out[key] = refV2 + strings.TrimPrefix(ref, refV3)
			case key == "items", key == "additionalProperties":
				out[key] = reduceAny(value)
			case key == "properties":
				properties, _ := value.(object)
				reduced := make(object, len(properties))
				for name, property := range properties {
					reduced[name] = reduceAny(property)
				}
				out[key] = reduced
			default:
				out[key] = value
			}
		}
		if all, _ := in["allOf"].([]any); len(all) == 1 {
			if only, _ := all[0].(object); only["$ref"] != nil {
				out["$ref"] = reduce(only)["$ref"]
			}
		}
		if nullable, _ := in["nullable"].(bool); nullable {
			delete(out, "type")
		}
		return out
	}
	return reduce(in)
}
