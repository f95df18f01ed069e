package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	weirschema "weir.dev/weir/server/schema"
)

// Config describes whose fields are tracked.
type Config struct {
	// Kind and version of the requests.
	Kind schema.GroupVersionKind
	// StorageVersion of the kind.
	StorageVersion string
	// Versions of the kind, for Reset: managers may own fields in any of them. That of Kind is one of them.
	Versions []string
	// Subresource through which fields are owned; "" for the object itself.
	Subresource string
	// Reset are the fields that a write here cannot change and so cannot own: status for the object itself,
	// metadata and spec for its status. One of metadata is metadata.labels.
	Reset []string
	// Types of the kind.
	Types *Types
	// Refuse says what of an applied object may not be, beyond what Types know, such as a null; nil: nothing.
	Refuse func(applied *document.Document) (field.ErrorList, error)
}

// Validate reports what is missing.
func (c Config) Validate() error {
	if c.Kind.Kind == "" || c.Kind.Version == "" || c.StorageVersion == "" || c.Types == nil {
		return errors.New("apply: Config needs Kind, StorageVersion and Types")
	}
	return nil
}

// Tracker tracks the fields of one kind through one endpoint.
type Tracker struct {
	config Config

	once   sync.Once
	fields *managedfields.FieldManager
	// reset are the paths of config.Reset.
	reset [][]string
	types managedfields.TypeConverter
	// root is the type for quick ways, nil where there are none.
	root       *mergeType
	apiVersion string
	err        error
}

var _ rest.FieldManager = (*Tracker)(nil)

// New returns the Tracker of config. It builds what it needs at the first write.
func New(config Config) (*Tracker, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Tracker{config: config}, nil
}

func (t *Tracker) init() error {
	t.once.Do(func() {
		if t.types, t.err = t.config.Types.typeConverter(); t.err != nil {
			return
		}
		var reset map[fieldpath.APIVersion]fieldpath.Filter
		if len(t.config.Reset) > 0 {
			set := fieldpath.NewSet()
			for _, name := range t.config.Reset {
				path := strings.Split(name, ".")
				t.reset = append(t.reset, path)
				set.Insert(fieldPath(path))
			}
			sets := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(t.config.Kind.GroupVersion().String()): set}
			for _, version := range t.config.Versions {
				sets[fieldpath.APIVersion(schema.GroupVersion{Group: t.config.Kind.Group, Version: version}.String())] = set
			}
			reset = fieldpath.NewExcludeFilterSetMap(sets)
		}
		hub := schema.GroupVersion{Group: t.config.Kind.Group, Version: t.config.StorageVersion}
		t.fields, t.err = managedfields.NewDefaultCRDFieldManager(t.types, versions{}, versions{}, versions{},
			t.config.Kind, hub, t.config.Subresource, reset)
		t.root, t.apiVersion = t.rootType(), t.config.Kind.GroupVersion().String()
	})
	return t.err
}

func fieldPath(names []string) fieldpath.Path {
	path := make(fieldpath.Path, len(names))
	for i := range names {
		path[i].FieldName = &names[i]
	}
	return path
}

// Update implements rest.FieldManager. An object whose fields cannot be tracked keeps the
// managedFields of live: that must not fail a write.
func (t *Tracker) Update(_ context.Context, live, obj *document.Document, manager string) (*document.Document, error) {
	if err := t.init(); err != nil {
		return nil, err
	}
	if result, ok := t.quickUpdate(live, obj, manager); ok {
		return result, nil
	}
	return t.slowUpdate(live, obj, manager)
}

// slowUpdate is Update by the library.
func (t *Tracker) slowUpdate(live, obj *document.Document, manager string) (*document.Document, error) {
	liveObject, err := t.object(live)
	if err != nil {
		return nil, err
	}
	newObject, err := t.object(obj)
	if err != nil {
		return nil, err
	}
	before := liveObject.GetManagedFields()
	result, err := t.fields.Update(liveObject, newObject, manager)
	if err != nil {
		newObject.SetManagedFields(before)
		result = newObject
	}
	managed, _, _ := unstructured.NestedFieldNoCopy(result.(*unstructured.Unstructured).Object, "metadata", "managedFields")
	if managed == nil {
		return obj.Edit().Delete("metadata", "managedFields").Document()
	}
	// Only managedFields are taken over: the rest of obj keeps the exact spelling of its numbers.
	return obj.Edit().Set(managed, "metadata", "managedFields").Document()
}

// Apply implements rest.FieldManager. What is not in the schema is refused, as an Invalid
// error that names the path.
func (t *Tracker) Apply(_ context.Context, live, applied *document.Document, manager string, force bool) (*document.Document, error) {
	if err := t.init(); err != nil {
		return nil, err
	}
	if result, ok := t.quickApply(live, applied, manager); ok {
		return result, nil
	}
	return t.slowApply(live, applied, manager, force)
}

// slowApply is Apply by the library.
func (t *Tracker) slowApply(live, applied *document.Document, manager string, force bool) (*document.Document, error) {
	liveObject, err := t.object(live)
	if err != nil {
		return nil, err
	}
	patch, err := t.object(applied)
	if err != nil {
		return nil, err
	}
	if err := t.check(patch); err != nil {
		return nil, err
	}
	if t.config.Refuse != nil {
		errs, err := t.config.Refuse(applied)
		if err != nil {
			return nil, err
		}
		if len(errs) > 0 {
			return nil, apierrors.NewInvalid(t.config.Kind.GroupKind(), patch.GetName(), errs)
		}
	}
	result, err := t.fields.Apply(liveObject, patch, manager, force)
	if err != nil {
		return nil, t.applyError(patch.GetName(), err)
	}
	object := result.(*unstructured.Unstructured).Object
	weirschema.Respell(object, applied.Root())
	if live != nil {
		weirschema.Respell(object, live.Root())
	}
	return document.FromValue(object)
}

// check refuses what the schema does not know and lists with duplicate keys.
func (t *Tracker) check(patch *unstructured.Unstructured) error {
	if patch.GroupVersionKind() != t.config.Kind {
		return nil // Apply names the version it expects
	}
	_, err := t.types.ObjectToTyped(patch)
	if err == nil {
		return nil
	}
	return t.invalid(patch.GetName(), err)
}

// invalid is the Invalid error of what structured-merge-diff says of an applied object.
func (t *Tracker) invalid(name string, err error) error {
	var list field.ErrorList
	var found typed.ValidationErrors
	if errors.As(err, &found) {
		for _, e := range found {
			list = append(list, &field.Error{Type: field.ErrorTypeInvalid, Field: trimDot(e.Path), BadValue: field.OmitValueType{}, Detail: e.ErrorMessage})
		}
	} else {
		list = field.ErrorList{&field.Error{Type: field.ErrorTypeInvalid, BadValue: field.OmitValueType{}, Detail: err.Error()}}
	}
	return apierrors.NewInvalid(t.config.Kind.GroupKind(), name, list)
}

func (t *Tracker) applyError(name string, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return t.invalid(name, err)
}

// object decodes a document; of nil it makes an empty object of the kind.
func (t *Tracker) object(doc *document.Document) (*unstructured.Unstructured, error) {
	if doc == nil {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(t.config.Kind)
		return u, nil
	}
	m, err := doc.Map()
	if err != nil {
		return nil, fmt.Errorf("managed fields: %w", err)
	}
	return &unstructured.Unstructured{Object: m}, nil
}

func trimDot(path string) string {
	if len(path) > 0 && path[0] == '.' {
		return path[1:]
	}
	return path
}

// versions brings unstructured objects to other versions by their name alone, makes empty
// ones and leaves defaults to the strategy.
type versions struct{}

var (
	_ runtime.ObjectConvertor = versions{}
	_ runtime.ObjectDefaulter = versions{}
	_ runtime.ObjectCreater   = versions{}
)

func (versions) Convert(in, out, _ any) error {
	return fmt.Errorf("cannot convert %T to %T", in, out)
}

func (versions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	kind, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if !ok {
		return nil, fmt.Errorf("no version of %s for %v", in.GetObjectKind().GroupVersionKind(), target)
	}
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cannot convert %T", in)
	}
	if u.GroupVersionKind() == kind {
		return u, nil
	}
	object := make(map[string]any, len(u.Object))
	for name, v := range u.Object {
		object[name] = v
	}
	converted := &unstructured.Unstructured{Object: object}
	converted.SetGroupVersionKind(kind)
	return converted, nil
}

func (versions) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (versions) Default(runtime.Object) {}

func (versions) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}
