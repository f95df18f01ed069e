package rest

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"weir.dev/weir/abi/document"
)

// Resource is one resource as it is served, built in or from a
// CustomResourceDefinition: there is no difference here. It is immutable.
type Resource struct {
	Group      string
	Name       string // plural, lower case, as in paths
	Singular   string
	Kind       string
	ListKind   string
	ShortNames []string
	Categories []string
	Namespaced bool
	// StorageVersion is the version in which objects are stored.
	StorageVersion string
	// Versions are the served versions, the preferred one first.
	Versions []*Version
	// Custom is set for the resource of a CustomResourceDefinition.
	Custom bool
}

// GroupResource returns the group and the name.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Name}
}

// Version returns the served version of that name, or nil.
func (r *Resource) Version(name string) *Version {
	for _, v := range r.Versions {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Version is one served version of a resource.
type Version struct {
	Name string
	// Deprecated, with its Warning header for every request, "" without one.
	Deprecated         bool
	DeprecationWarning string
	// Storage has the verbs of the resource: it implements those of Getter, Lister,
	// Watcher, Creater, Updater, GracefulDeleter and CollectionDeleter that are served.
	// It takes and gives objects of StorageVersion.
	Storage any
	// Schema knows the fields of this version.
	Schema Schema
	// Converter brings objects from this version to StorageVersion and back; nil when they are the same.
	Converter Converter
	// Fields tracks who owns which field. Nil: the kind has no managedFields.
	Fields FieldManager
	// PatchMeta guides a strategic merge patch; nil where it is not supported (415).
	PatchMeta strategicpatch.LookupPatchMeta
	// Columns of a Table; the name is the first.
	Columns []Column
	// Subresources by name: status, scale, finalize, …
	Subresources map[string]*Subresource
	// SelectableFields are the field selector paths beyond metadata.name and
	// metadata.namespace, without a leading dot.
	SelectableFields []string
	// OpenAPI gives the kind's schema for publication; nil publishes metadata only.
	OpenAPI OpenAPISource
}

// OpenAPISource gives the OpenAPI v3 schema of a kind and of all it refers to.
type OpenAPISource interface {
	// Definitions returns the name of the kind's definition and all
	// definitions that it needs, by name, as JSON schemas in OpenAPI v3.
	Definitions() (name string, definitions map[string][]byte, err error)
}

// Subresource is served below an object.
type Subresource struct {
	Name string
	// GroupVersionKind of what it takes and gives, e.g. autoscaling/v1 Scale.
	// Empty: that of the resource.
	schema.GroupVersionKind
	// Storage implements Getter, Updater or NamedCreater.
	Storage any
	// Schema of what it takes, where that is not the resource's own kind.
	Schema Schema
	// Fields tracks ownership through the subresource; nil: not tracked.
	Fields FieldManager
}

// Column is one column of a Table.
type Column struct {
	metav1.TableColumnDefinition
	// Cell computes the value from a decoded object.
	Cell func(obj map[string]any, now time.Time) any
}

// Schema knows the fields of a kind.
type Schema interface {
	// Prune removes unknown fields and returns their paths, sorted, as upstream spells
	// them (`spec.foo`, `spec.list[0].bar`).
	Prune(obj *document.Document) (pruned *document.Document, unknown []string, err error)
	// Coerce refuses what cannot be an object of the kind at all, such as a
	// metadata that does not have its types, with an apierrors BadRequest.
	Coerce(obj *document.Document) (*document.Document, error)
}

// Converter brings an object to another version of its kind.
type Converter interface {
	Convert(ctx context.Context, obj *document.Document, toVersion string) (*document.Document, error)
}

// FieldManager tracks in metadata.managedFields who owns which field.
type FieldManager interface {
	// Update notes what manager changed from live to obj by an update, create (live
	// is then nil) or patch that is no apply. It returns obj with managedFields.
	Update(ctx context.Context, live, obj *document.Document, manager string) (*document.Document, error)
	// Apply merges what manager applies into live (nil: creates). A conflict is
	// an apierrors Conflict with one cause per field, unless force.
	Apply(ctx context.Context, live, applied *document.Document, manager string, force bool) (*document.Document, error)
}
