package openapi

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/rest"
)

// Part is one version of a resource.
type Part struct {
	Resource *rest.Resource
	Version  *rest.Version
}

// Path is the key of a group version's document: `api/v1`, `apis/apps/v1`.
func Path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.Group + "/" + gv.Version
}

// Parts returns the versions in a catalog by the Path of their group version, in the catalog's order.
func Parts(catalog rest.Catalog) map[string][]Part {
	parts := map[string][]Part{}
	for _, r := range catalog.Resources() {
		for _, v := range r.Versions {
			key := Path(schema.GroupVersion{Group: r.Group, Version: v.Name})
			parts[key] = append(parts[key], Part{r, v})
		}
	}
	return parts
}

// V3 builds the OpenAPI v3 document of a group version. The document is always
// whole: a kind whose schema cannot be had is published with its metadata only, and err says why.
func V3(parts []Part, version string) (raw []byte, err error) {
	defs := definitions{}
	paths := object{}
	var errs []error
	for _, p := range parts {
		kind, list, err := defs.add(p.Resource, p.Version)
		if err != nil {
			errs = append(errs, fmt.Errorf("schema of %s: %w", kind.GroupVersionKind, err))
		}
		for _, path := range pathsOf(p.Resource, p.Version, kind, list, defs) {
			paths[path.path] = path.v3()
		}
	}
	raw, err = json.Marshal(object{
		"openapi":    "3.0.0",
		"info":       object{"title": "Kubernetes", "version": version},
		"paths":      paths,
		"components": object{"schemas": defs},
	})
	return raw, errors.Join(append(errs, err)...)
}

func (p path) v3() object {
	item := object{}
	var parameters []object
	for _, name := range p.parameters {
		parameters = append(parameters, object{
			"name": name, "in": "path", "required": true, "description": pathParameterText(name),
			"schema": object{"type": "string", "uniqueItems": true},
		})
	}
	if len(parameters) > 0 {
		item["parameters"] = parameters
	}
	for _, op := range p.operations {
		item[op.method] = op.v3()
	}
	return item
}

func (o operation) v3() object {
	out := object{
		"description":   o.description,
		"operationId":   o.id,
		"tags":          []string{tag(o.kind.GroupVersion())},
		extensionAction: o.action,
		extensionGVK:    o.kind.gvk(),
	}
	var parameters []object
	for _, q := range o.query {
		parameters = append(parameters, object{
			"name": q.name, "in": "query", "description": q.description,
			"schema": object{"type": q.typ, "uniqueItems": true},
		})
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	switch {
	case len(o.bodyTypes) > 0:
		content := object{}
		for _, mediaType := range o.bodyTypes {
			content[mediaType] = object{"schema": object{"type": "object"}}
		}
		out["requestBody"] = object{"content": content, "required": true}
	case o.body != nil:
		out["requestBody"] = object{"content": object{"*/*": object{"schema": o.body.refV3()}}, "required": true}
	}
	response := func(description string) object {
		r := object{"description": description}
		if o.response != nil {
			r["content"] = object{
				"application/json": object{"schema": o.response.refV3()},
				"application/yaml": object{"schema": o.response.refV3()},
			}
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

func (k *kindOf) refV3() object {
	if k.definition == "" {
		return object{"type": "object"}
	}
	return object{"$ref": refV3 + k.definition}
}
