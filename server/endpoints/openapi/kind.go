package openapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/rest"
)

const (
	extensionGVK    = "x-kubernetes-group-version-kind"
	extensionAction = "x-kubernetes-action"

	refV3 = "#/components/schemas/"
	refV2 = "#/definitions/"

	scaleDefinition = "io.k8s.api.autoscaling.v1.Scale"
)

// object is a JSON object under construction.
type object = map[string]any

// kindOf names a kind and, where its schema is known, its definition.
type kindOf struct {
	schema.GroupVersionKind
	definition string
}

// gvk is the extension of an operation: one kind.
func (k kindOf) gvk() object {
	return object{"group": k.Group, "kind": k.Kind, "version": k.Version}
}

// definitions are schemas by name, as OpenAPI v3.
type definitions map[string]json.RawMessage

// add takes in the definitions of a version of a resource and of its list.
func (d definitions) add(r *rest.Resource, v *rest.Version) (kind, list kindOf, err error) {
	kind.GroupVersionKind = schema.GroupVersionKind{Group: r.Group, Version: v.Name, Kind: r.Kind}
	name, schemas, err := source(v)
	if err != nil || name == "" || schemas[name] == nil {
		if err == nil && v.OpenAPI != nil {
			err = fmt.Errorf("source has no definition %q", name)
		}
		name, schemas = defaultName(kind.GroupVersionKind), nil
	}
	for key, raw := range schemas {
		if _, ok := d[key]; !ok {
			d[key] = raw
		}
	}
	if d[name] == nil {
		d[name] = metadataOnly()
	}
	kind.definition = name
	tagged, tagErr := withGVK(d[name], kind)
	if tagErr != nil {
		return kind, list, tagErr
	}
	d[name] = tagged

	list.GroupVersionKind = kind.GroupVersionKind
	list.Kind = r.ListKind
	if list.Kind == "" {
		list.Kind = r.Kind + "List"
	}
	list.definition = strings.TrimSuffix(name, r.Kind) + list.Kind
	if d[list.definition] == nil {
		raw, marshalErr := json.Marshal(listSchema(kind, list))
		if marshalErr != nil {
			return kind, list, marshalErr
		}
		d[list.definition] = raw
	}
	return kind, list, err
}

func source(v *rest.Version) (string, map[string][]byte, error) {
	if v.OpenAPI == nil {
		return "", nil, nil
	}
	return v.OpenAPI.Definitions()
}

// defaultName reverses the group, as upstream names the kinds of custom resources.
func defaultName(gvk schema.GroupVersionKind) string {
	parts := strings.Split(gvk.Group, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	if gvk.Group == "" {
		parts = []string{"core"}
	}
	return strings.Join(append(parts, gvk.Version, gvk.Kind), ".")
}

// metadataOnly is published for a kind whose schema is not.
func metadataOnly() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},"x-kubernetes-preserve-unknown-fields":true}`)
}

func listSchema(kind, list kindOf) object {
	return object{
		"type":        "object",
		"description": list.Kind + " is a list of " + kind.Kind,
		"required":    []string{"items"},
		"properties": object{
			"apiVersion": object{"type": "string", "description": "APIVersion defines the versioned schema of this representation of an object."},
			"kind":       object{"type": "string", "description": "Kind is a string value representing the REST resource this object represents."},
			"metadata": object{"type": "object", "description": "Standard list metadata.", "properties": object{
				"continue":           object{"type": "string"},
				"remainingItemCount": object{"type": "integer", "format": "int64"},
				"resourceVersion":    object{"type": "string"},
			}},
			"items": object{"type": "array", "items": object{"$ref": refV3 + kind.definition}},
		},
		extensionGVK: []any{list.gvk()},
	}
}

// withGVK adds the extension by which clients find a schema, where it is missing.
func withGVK(raw json.RawMessage, kind kindOf) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("definition %s: %w", kind.definition, err)
	}
	if _, ok := members[extensionGVK]; ok {
		return raw, nil
	}
	gvk, err := json.Marshal([]any{kind.gvk()})
	if err != nil {
		return nil, err
	}
	members[extensionGVK] = gvk
	return json.Marshal(members)
}

// subKind is the kind of a subresource: its own, or that of the resource.
func (d definitions) subKind(parent kindOf, sub *rest.Subresource) kindOf {
	if sub.Kind == "" || sub.GroupVersionKind == parent.GroupVersionKind {
		return parent
	}
	kind := kindOf{GroupVersionKind: sub.GroupVersionKind}
	if sub.GroupVersionKind == (schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}) {
		kind.definition = scaleDefinition
		if d[scaleDefinition] == nil {
			d[scaleDefinition] = scaleSchema()
		}
	}
	return kind
}

func scaleSchema() json.RawMessage {
	return json.RawMessage(`{"description":"Scale represents a scaling request for a resource.","type":"object","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},"metadata":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"spec":{"type":"object","description":"spec defines the behavior of the scale.","properties":{"replicas":{"type":"integer","format":"int32","description":"replicas is the desired number of instances for the scaled object."}}},"status":{"type":"object","description":"status is the current status of the scale. Read-only.","required":["replicas"],"properties":{"replicas":{"type":"integer","format":"int32","description":"replicas is the actual number of observed instances of the scaled object."},"selector":{"type":"string","description":"selector is the label query over pods that should match the replicas count, in string form."}}}},"x-kubernetes-group-version-kind":[{"group":"autoscaling","kind":"Scale","version":"v1"}]}`)
}
