package server

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apply"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
	weirschema "weir.dev/weir/server/schema"
)

// tracker returns what tracks the fields of a version written through a subresource.
func (b *builder) tracker(d *resources.Definition, v *resources.Version, fields *weirschema.Kind, parts versionParts, subresource string) (rest.FieldManager, error) {
	var refuse func(*document.Document) (field.ErrorList, error)
	if parts.custom {
		refuse = fields.Nulls
	}
	var reset []string
	switch {
	case subresource == rest.SubresourceStatus:
		reset = statusReset(v)
	case v.Status:
		reset = []string{"status"}
	}
	versions := make([]string, 0, len(d.Versions))
	for i := range d.Versions {
		versions = append(versions, d.Versions[i].Name)
	}
	return apply.New(apply.Config{
		Versions:       versions,
		Kind:           schema.GroupVersionKind{Group: d.Group, Version: v.Name, Kind: d.Kind},
		StorageVersion: d.StorageVersion,
		Subresource:    subresource,
		Reset:          reset,
		Types:          parts.types,
		Refuse:         refuse,
	})
}

// statusMetadata are the members of metadata that a write of a status may change.
var statusMetadata = [...]string{"annotations", "finalizers", "labels", "ownerReferences"}

// statusReset returns the fields that a write of the status cannot change.
func statusReset(v *resources.Version) []string {
	if len(v.StatusMetadata) == 0 {
		return []string{"metadata", "spec"}
	}
	reset := []string{"spec"}
	for _, name := range statusMetadata {
		if !slices.Contains(v.StatusMetadata, name) {
			reset = append(reset, "metadata."+name)
		}
	}
	return reset
}

// customTypes returns the merge types of all versions of a custom resource: a manager may own fields in another
// version than that of the request.
func (b *builder) customTypes(d *resources.Definition) *apply.Types {
	if slices.ContainsFunc(d.Versions, func(v resources.Version) bool { return v.Inline == nil }) {
		return apply.NewTypes(nil, true)
	}
	preserve := slices.ContainsFunc(d.Versions, func(v resources.Version) bool { return v.PreserveUnknown })
	return apply.NewTypes(func() (map[string]*spec.Schema, error) {
		all := map[string]*spec.Schema{}
		for i := range d.Versions {
			definitions, err := customDefinitions(b.set, d, &d.Versions[i])
			if err != nil {
				return nil, err
			}
			maps.Copy(all, definitions)
		}
		return all, nil
	}, preserve)
}

// builtInTypes returns the merge types of a group version, which its resources share.
func (b *builder) builtInTypes(gv schema.GroupVersion) *apply.Types {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.types[gv]; ok {
		return t
	}
	if b.types == nil {
		b.types = map[schema.GroupVersion]*apply.Types{}
	}
	t := apply.NewTypes(func() (map[string]*spec.Schema, error) { return b.set.GroupVersionSchemas(gv) }, false)
	b.types[gv] = t
	return t
}
