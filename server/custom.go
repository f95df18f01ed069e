package server

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// objectMetaModel is the published name of metadata.
const objectMetaModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// customDefinitionName is what OpenAPI calls the kind of a custom resource, e.g.
// com.example.stable.v1.CronTab.
func customDefinitionName(d *resources.Definition, v *resources.Version) string {
	parts := strings.Split(d.Group, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(append(parts, v.Name, d.Kind), ".")
}

// customDefinitions returns the OpenAPI definitions of a custom resource: its own, with apiVersion, kind
// and metadata, and those of metadata.
func customDefinitions(set *resources.Set, d *resources.Definition, v *resources.Version) (map[string]*spec.Schema, error) {
	definitions, err := set.SchemaClosure(objectMetaModel)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*spec.Schema, len(definitions)+1)
	for name, s := range definitions {
		out[name] = s
	}
	kind := &spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}}}
	if v.Inline != nil {
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Inline, internal, nil); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", d.Kind, err)
		}
		structural, err := structuralschema.NewStructural(internal)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", d.Kind, err)
		}
		kind = structural.ToKubeOpenAPI()
	} else {
		kind.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	}
	if kind.Properties == nil {
		kind.Properties = map[string]spec.Schema{}
	}
	kind.Properties["apiVersion"] = textProperty("APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources")
	kind.Properties["kind"] = textProperty("Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds")
	kind.Properties["metadata"] = spec.Schema{SchemaProps: spec.SchemaProps{
		Description: "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
		Ref:         spec.MustCreateRef("#/components/schemas/" + objectMetaModel),
	}}
	kind.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": d.Group, "version": v.Name, "kind": d.Kind}})
	out[customDefinitionName(d, v)] = kind
	return out, nil
}

func textProperty(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"string"}, Description: description}}
}

// renamer is the conversion strategy None: versions differ in their name alone.
type renamer struct{ group string }

var _ rest.Converter = renamer{}

// Convert implements rest.Converter.
func (r renamer) Convert(_ context.Context, obj *document.Document, toVersion string) (*document.Document, error) {
	apiVersion := r.group + "/" + toVersion
	// Canonical objects begin with their apiVersion: the usual case needs no look at the rest.
	if bytes.HasPrefix(obj.Bytes(), []byte(`{"apiVersion":"`+apiVersion+`"`)) {
		return obj, nil
	}
	return obj.Edit().Set(apiVersion, "apiVersion").Document()
}
