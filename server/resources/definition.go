package resources

import (
	"encoding/json"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Definition describes one resource of one API group in all its versions.
// Definitions of a [Set] are shared: treat them as read-only.
type Definition struct {
	// Group is the API group; empty for core.
	Group string `json:"-"`
	// Resource is the plural, as in URLs: deployments.
	Resource string `json:"resource"`
	// Singular defaults to the lower-case Kind.
	Singular string `json:"singular,omitempty"`
	Kind     string `json:"kind"`
	// ListKind defaults to Kind followed by List.
	ListKind   string   `json:"listKind,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
	// Namespaced says whether objects live in a namespace.
	Namespaced bool `json:"namespaced,omitempty"`

	// Generation says that metadata.generation counts the changes of spec. Custom
	// resources always have one.
	Generation bool `json:"generation,omitempty"`
	// NameFormat is subdomain (the default), label, label1035 or pathSegment: what a name must be.
	NameFormat string `json:"nameFormat,omitempty"`
	// CreateOnUpdate lets a PUT create an object.
	CreateOnUpdate bool `json:"createOnUpdate,omitempty"`
	// TTLSeconds after which objects vanish; 0: never.
	TTLSeconds uint64 `json:"ttlSeconds,omitempty"`

	// StorageVersion names the version that rows are written in. It defaults
	// to the first of Versions.
	StorageVersion string `json:"storageVersion,omitempty"`
	// StoragePrefix is the path of the rows below the storage root, without
	// slashes at its ends. It defaults to <group>/<resource>, for the core
	// group to the bare resource.
	StoragePrefix string `json:"storagePrefix,omitempty"`

	// Versions in order of preference.
	Versions []Version `json:"versions"`

	// Revised says that objects may have been stored under another schema or in another version than
	// these: what is read is pruned and defaulted.
	Revised bool `json:"-"`

	// Rules are the conditional defaults, in the order they apply.
	Rules []DefaultRule `json:"rules,omitempty"`
}

// Version is one version of a resource.
type Version struct {
	Name string `json:"name"`
	// Served says whether clients may use this version. A pack's versions are
	// served unless they say otherwise.
	Served bool `json:"served"`
	// Deprecated, when not empty, is the warning that every request to this
	// version answers with.
	Deprecated string `json:"deprecated,omitempty"`

	// SchemaName names the version's schema among those of the Set, such as
	// io.k8s.api.apps.v1.Deployment. A version has either this or Inline.
	SchemaName string `json:"schema,omitempty"`
	// Inline is the schema itself, as custom resources have it. A version with
	// neither accepts any content.
	Inline *apiextensionsv1.JSONSchemaProps `json:"-"`
	// PreserveUnknown keeps fields that the schema does not know.
	PreserveUnknown bool `json:"preserveUnknown,omitempty"`

	// Verbs of the main resource, as discovery lists them; empty means all.
	Verbs []string `json:"verbs,omitempty"`
	// Virtual resources are answered, never stored: reviews.
	Virtual bool `json:"virtual,omitempty"`

	// Status enables the status subresource, with status left alone by the
	// main resource.
	Status bool `json:"status,omitempty"`
	// StatusMetadata are the members of metadata that a write of the status takes
	// too, as upstream's strategy of a kind that is older than its rule not to.
	StatusMetadata []string `json:"statusMetadata,omitempty"`
	// Scale enables the scale subresource.
	Scale *Scale `json:"scale,omitempty"`
	// Subresources beside status and scale.
	Subresources []Subresource `json:"subresources,omitempty"`

	// PrinterColumns are those after the Name column; see TableColumns.
	PrinterColumns []Column `json:"columns,omitempty"`
	// SelectableFields are what a field selector may name beside metadata.name
	// and metadata.namespace.
	SelectableFields []SelectableField `json:"selectableFields,omitempty"`
}

// Scale says where a resource keeps what autoscaling/v1 Scale shows. Paths
// are JSON paths with a leading dot, as in a CustomResourceDefinition.
type Scale struct {
	SpecReplicasPath   string `json:"specReplicasPath"`
	StatusReplicasPath string `json:"statusReplicasPath"`
	// LabelSelectorPath leads to a serialized selector, a LabelSelector object
	// or a map of labels. Empty: Scale has no selector.
	LabelSelectorPath string `json:"labelSelectorPath,omitempty"`
}

// Subresource is a part of an object that is written apart from the rest.
type Subresource struct {
	Name string `json:"name"`
	// Verbs as discovery lists them, such as get, patch, update.
	Verbs []string `json:"verbs"`
	// Writes lists the paths (status.conditions) that a write takes from the
	// request; everything else stays as stored.
	Writes []string `json:"writes"`
}

// DefaultRule is a default that depends on the object. The rule applies to
// each existing parent that Path selects and that lacks the last field of Path
// (or holds null there); parents are never created.
//
// Value and When are CEL over
//
//	object  the whole object
//	base    the object at Base (the pod template of a workload, say)
//	item    the parent of the field that Path names
//
// and are evaluated after schema defaults, in the order of the rules.
type DefaultRule struct {
	// Base is the path of base from the root; empty: base is object.
	Base string `json:"base,omitempty"`
	// Path from the root; [*] stands for every item of a list.
	Path string `json:"path"`
	// When must be true for the rule to apply; empty means always.
	When string `json:"when,omitempty"`
	// Value of the field.
	Value string `json:"value"`
	// Merge adds the entries of Value, a map, that the field lacks, instead of
	// requiring the field to be absent.
	Merge bool `json:"merge,omitempty"`
}

// SelectableField is a field that selectors may name. A pack may write it as
// the bare name, which is then its path too.
type SelectableField struct {
	// Name in selectors: spec.nodeName.
	Name string `json:"name"`
	// Path from the root, without a leading dot; it defaults to Name.
	Path string `json:"path,omitempty"`
	// Default is the value of objects that lack the field.
	Default string `json:"default,omitempty"`
}

// UnmarshalJSON accepts a string for a field that is all default.
func (f *SelectableField) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*f = SelectableField{}
		if err := json.Unmarshal(data, &f.Name); err != nil {
			return err
		}
	} else {
		type plain SelectableField
		if err := json.Unmarshal(data, (*plain)(f)); err != nil {
			return err
		}
	}
	if f.Path == "" {
		f.Path = f.Name
	}
	return nil
}

// AllVerbs are the verbs of a resource that restricts none, in discovery's
// order.
func AllVerbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// GroupResource of d.
func (d *Definition) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: d.Group, Resource: d.Resource}
}

// Version finds a version by name, served or not.
func (d *Definition) Version(name string) (*Version, bool) {
	i := slices.IndexFunc(d.Versions, func(v Version) bool { return v.Name == name })
	if i < 0 {
		return nil, false
	}
	return &d.Versions[i], true
}

// StorageGroupVersion is the version that rows are written in.
func (d *Definition) StorageGroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: d.Group, Version: d.StorageVersion}
}

// EffectiveVerbs are Verbs, or AllVerbs when there are none.
func (v *Version) EffectiveVerbs() []string {
	if len(v.Verbs) > 0 {
		return v.Verbs
	}
	return AllVerbs()
}

// ListSchemaName names the schema of the list kind next to SchemaName; empty
// without one.
func (v *Version) ListSchemaName(listKind string) string {
	i := strings.LastIndexByte(v.SchemaName, '.')
	if i < 0 {
		return ""
	}
	return v.SchemaName[:i+1] + listKind
}

// Complete fills what was left to its default. Definitions of a Set are
// complete; a caller that makes its own, from a CustomResourceDefinition say,
// calls it once.
func (d *Definition) Complete() {
	if d.Singular == "" {
		d.Singular = strings.ToLower(d.Kind)
	}
	if d.ListKind == "" {
		d.ListKind = d.Kind + "List"
	}
	for i := range d.Versions {
		for j := range d.Versions[i].SelectableFields {
			if f := &d.Versions[i].SelectableFields[j]; f.Path == "" {
				f.Path = f.Name
			}
		}
	}
	if d.StorageVersion == "" && len(d.Versions) > 0 {
		d.StorageVersion = d.Versions[0].Name
	}
	if d.StoragePrefix == "" {
		d.StoragePrefix = d.Resource
		if d.Group != "" {
			d.StoragePrefix = d.Group + "/" + d.Resource
		}
	}
}
