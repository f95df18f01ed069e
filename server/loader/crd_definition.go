package loader

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"weir.dev/weir/server/resources"
)

// bareDefinitionOf is definitionOf for no more than deleting objects, which any definition is good for.
func bareDefinitionOf(crd *apiextensionsv1.CustomResourceDefinition, names apiextensionsv1.CustomResourceDefinitionNames) (*resources.Definition, error) {
	bare := crd.DeepCopy()
	bare.Generation = 1 // objects are not brought to the schema
	bare.Spec.Conversion, bare.Spec.PreserveUnknownFields, bare.Spec.Versions = nil, true, nil
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			bare.Spec.Versions = append(bare.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: true, Storage: true})
		}
	}
	return definitionOf(bare, names)
}

// definitionOf returns the definition of the resource of crd under its accepted names, in the same
// terms as a built-in one.
func definitionOf(crd *apiextensionsv1.CustomResourceDefinition, names apiextensionsv1.CustomResourceDefinitionNames) (*resources.Definition, error) {
	d := &resources.Definition{
		Group:      crd.Spec.Group,
		Resource:   names.Plural,
		Singular:   names.Singular,
		Kind:       names.Kind,
		ListKind:   names.ListKind,
		ShortNames: names.ShortNames,
		Categories: names.Categories,
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		Revised:    crd.Generation > 1 || len(crd.Spec.Versions) > 1,
	}
	// One that kube-apiserver stored may have a conversion that is not made here. Where all objects are in the storage version, that
	// can be served without; any other version would show, and then store, half of an object.
	converted := crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if converted && !v.Storage && slices.Contains(crd.Status.StoredVersions, v.Name) {
			return nil, fmt.Errorf("objects may be stored in version %s, and conversion strategy %s is not supported", v.Name, crd.Spec.Conversion.Strategy)
		}
		if v.Storage {
			d.StorageVersion = v.Name
		}
		version := resources.Version{
			Name:            v.Name,
			Served:          v.Served && (v.Storage || !converted),
			PreserveUnknown: crd.Spec.PreserveUnknownFields,
		}
		if v.Schema != nil {
			version.Inline = v.Schema.OpenAPIV3Schema
		}
		if v.Deprecated {
			version.Deprecated = deprecation(crd, v.Name, names.Kind)
			if v.DeprecationWarning != nil {
				version.Deprecated = *v.DeprecationWarning
			}
		}
		if sub := v.Subresources; sub != nil {
			version.Status = sub.Status != nil
			if sub.Scale != nil {
				version.Scale = &resources.Scale{SpecReplicasPath: sub.Scale.SpecReplicasPath, StatusReplicasPath: sub.Scale.StatusReplicasPath}
				if sub.Scale.LabelSelectorPath != nil {
					version.Scale.LabelSelectorPath = *sub.Scale.LabelSelectorPath
				}
			}
		}
		for _, c := range v.AdditionalPrinterColumns {
			version.PrinterColumns = append(version.PrinterColumns, resources.Column{
				Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority, JSONPath: c.JSONPath})
		}
		if len(v.AdditionalPrinterColumns) == 0 {
			version.PrinterColumns = []resources.Column{{
				Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
				Description: "CreationTimestamp is a timestamp representing the server time when this object was created."}}
		}
		for j := range version.PrinterColumns {
			if err := version.PrinterColumns[j].Compile(); err != nil {
				return nil, fmt.Errorf("version %s: %w", v.Name, err)
			}
		}
		for _, f := range v.SelectableFields {
			version.SelectableFields = append(version.SelectableFields, resources.SelectableField{Name: trimDot(f.JSONPath)})
		}
		d.Versions = append(d.Versions, version)
	}
	// Clients are offered GA before beta before alpha, the newest first, whatever the order in the spec.
	slices.SortStableFunc(d.Versions, func(a, b resources.Version) int { return compareVersions(b.Name, a.Name) })
	d.Complete()
	return d, nil
}

// deprecation is upstream's warning: it names the best of the newer versions that are not deprecated.
func deprecation(crd *apiextensionsv1.CustomResourceDefinition, version, kind string) string {
	text, best := fmt.Sprintf("%s/%s %s is deprecated", crd.Spec.Group, version, kind), ""
	for _, v := range crd.Spec.Versions {
		if v.Served && !v.Deprecated && compareVersions(version, v.Name) < 0 && (best == "" || compareVersions(best, v.Name) < 0) {
			best = v.Name
		}
	}
	if best != "" {
		text += fmt.Sprintf("; use %s/%s %s", crd.Spec.Group, best, kind)
	}
	return text
}

func trimDot(path string) string {
	if path != "" && path[0] == '.' {
		return path[1:]
	}
	return path
}
