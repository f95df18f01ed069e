package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// ScalePaths say where an object keeps what its Scale shows. They are JSON paths with a leading dot
// as in a CustomResourceDefinition: members only.
type ScalePaths struct {
	// SpecReplicas, e.g. .spec.replicas, and StatusReplicas are required.
	SpecReplicas   string
	StatusReplicas string
	// LabelSelector leads to a selector as text, a LabelSelector or a map of labels; "" is none.
	LabelSelector string
}

// notSet stands in a Scale under update for replicas that the object does not say, so
// that a patch which does not set them is told from one that sets them to 0.
const notSet = math.MinInt32

// Scale shows the replicas of a Store's objects as an autoscaling/v1 Scale.
type Scale struct {
	store                                  *Store
	paths                                  ScalePaths
	specReplicas, statusReplicas, selector []string
	// mappings from the versions of the object to the path of its replicas, for managedFields
	mappings managedfields.ResourcePathMappings
	parent   schema.GroupVersion
}

var (
	_ rest.Getter  = (*Scale)(nil)
	_ rest.Updater = (*Scale)(nil)
)

// NewScale returns the scale subresource of a Store whose objects are stored as version.
// versions are all those of the resource, as managedFields may name them.
func NewScale(store *Store, paths ScalePaths, version schema.GroupVersion, versions []string) (*Scale, error) {
	s := &Scale{store: store, paths: paths, parent: version, mappings: managedfields.ResourcePathMappings{}}
	s.specReplicas, s.statusReplicas, s.selector = splitPath(paths.SpecReplicas), splitPath(paths.StatusReplicas), splitPath(paths.LabelSelector)
	if len(s.specReplicas) == 0 || len(s.statusReplicas) == 0 {
		return nil, fmt.Errorf("scale of %s: a path of replicas is empty", store.cfg.Resource)
	}
	var path fieldpath.Path
	for _, name := range s.specReplicas {
		path = append(path, fieldpath.PathElement{FieldName: &name})
	}
	for _, v := range append(versions, version.Version) {
		s.mappings[schema.GroupVersion{Group: version.Group, Version: v}.String()] = path
	}
	return s, nil
}

func splitPath(path string) []string {
	if path = strings.TrimPrefix(path, "."); path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

// Get implements rest.Getter.
func (s *Scale) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	obj, err := s.store.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	scale, found, err := s.of(obj)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, statusError(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("the spec replicas field %q does not exist", s.paths.SpecReplicas))
	}
	return scaleDocument(scale)
}

// Update implements rest.Updater: it sets the replicas of the object and
// takes nothing else of the Scale but resourceVersion and managedFields.
func (s *Scale) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, _ bool, opts *metav1.UpdateOptions,
) (*document.Document, bool, error) {
	var validate rest.ValidateObjectUpdateFunc
	if validateUpdate != nil {
		validate = func(ctx context.Context, obj, old *document.Document) error {
			scale, err := s.document(obj)
			if err != nil {
				return err
			}
			oldScale, err := s.document(old)
			if err != nil {
				return err
			}
			return validateUpdate(ctx, scale, oldScale)
		}
	}
	u := &update{
		store: s.store, strategy: s.store.cfg.Strategy, name: name, info: scaleUpdate{s, info},
		validateUpdate: validate, dryRun: opts != nil && dryRun(opts.DryRun),
	}
	obj, _, err := u.run(ctx)
	if err != nil {
		return nil, false, err
	}
	scale, err := s.document(obj)
	return scale, false, err
}

// scaleUpdate is an update of a Scale as an update of its object.
type scaleUpdate struct {
	scale *Scale
	info  rest.UpdatedObjectInfo
}

// Preconditions implements rest.UpdatedObjectInfo.
func (u scaleUpdate) Preconditions() *metav1.Preconditions { return u.info.Preconditions() }

// UpdatedObject implements rest.UpdatedObjectInfo.
func (u scaleUpdate) UpdatedObject(ctx context.Context, old *document.Document) (*document.Document, error) {
	s := u.scale
	scale, found, err := s.of(old)
	if err != nil {
		return nil, err
	}
	handler, err := s.fields(old)
	if err != nil {
		return nil, err
	}
	if scale.ManagedFields, err = handler.ToSubresource(); err != nil {
		return nil, fmt.Errorf("managedFields of the scale: %w", err)
	}
	if !found {
		scale.Spec.Replicas = notSet
	}
	current, err := scaleDocument(scale)
	if err != nil {
		return nil, err
	}
	wanted, err := u.info.UpdatedObject(ctx, current)
	if err != nil {
		return nil, err
	}
	if wanted == nil {
		return nil, errNoObject
	}
	var next autoscalingv1.Scale
	if err := json.Unmarshal(wanted.Bytes(), &next); err != nil {
		return nil, apierrors.NewBadRequest("Scale: " + err.Error())
	}
	switch {
	case next.Spec.Replicas == notSet:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", s.paths.SpecReplicas))
	case next.Name != scale.Name:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", next.Name, scale.Name))
	case next.Spec.Replicas < 0:
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), scale.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), next.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	managed, err := handler.ToParent(next.ManagedFields)
	if err != nil {
		return nil, apierrors.NewBadRequest("managedFields of the Scale: " + err.Error())
	}
	e := old.Edit().Set(int64(next.Spec.Replicas), s.specReplicas...)
	if next.ResourceVersion != "" {
		e.Set(next.ResourceVersion, "metadata", "resourceVersion")
	}
	if len(managed) == 0 {
		e.Delete("metadata", "managedFields")
	} else {
		raw, err := json.Marshal(managed)
		if err != nil {
			return nil, fmt.Errorf("managedFields of the scale: %w", err)
		}
		e.Set(json.RawMessage(raw), "metadata", "managedFields")
	}
	out, err := e.Document()
	if err != nil {
		// The path leads through what is no JSON object.
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, nil
}

// fields translates managedFields between the object and its Scale.
func (s *Scale) fields(obj *document.Document) (*managedfields.ScaleHandler, error) {
	var entries []metav1.ManagedFieldsEntry
	if v := obj.Get("metadata", "managedFields"); v.Kind() == document.Array {
		if err := json.Unmarshal(v.Raw(), &entries); err != nil {
			return nil, fmt.Errorf("stored managedFields: %w", err)
		}
	}
	return managedfields.NewScaleHandler(entries, s.parent, s.mappings), nil
}

func (s *Scale) document(obj *document.Document) (*document.Document, error) {
	scale, _, err := s.of(obj)
	if err != nil {
		return nil, err
	}
	return scaleDocument(scale)
}

func scaleDocument(scale *autoscalingv1.Scale) (*document.Document, error) {
	raw, err := json.Marshal(scale)
	if err != nil {
		return nil, fmt.Errorf("scale %q: %w", scale.Name, err)
	}
	return document.Parse(raw)
}

// of returns the Scale of obj, and whether obj says how many replicas it wants.
func (s *Scale) of(obj *document.Document) (*autoscalingv1.Scale, bool, error) {
	wanted, found, err := replicas(obj, s.specReplicas)
	if err != nil {
		return nil, false, err
	}
	have, _, err := replicas(obj, s.statusReplicas)
	if err != nil {
		return nil, false, err
	}
	selector, err := s.selectorText(obj)
	if err != nil {
		return nil, false, err
	}
	m := rest.MetaOf(obj)
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name(), Namespace: m.Namespace(), UID: m.UID(), ResourceVersion: m.ResourceVersion(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: wanted},
		Status: autoscalingv1.ScaleStatus{Replicas: have, Selector: selector},
	}
	if text := m.CreationTimestamp(); text != "" {
		if err := scale.CreationTimestamp.UnmarshalQueryParameter(text); err != nil {
			return nil, false, fmt.Errorf("stored creationTimestamp: %w", err)
		}
	}
	return scale, found, nil
}

func replicas(obj *document.Document, path []string) (int32, bool, error) {
	v := obj.Get(path...)
	if !v.Exists() || v.Kind() == document.Null {
		return 0, false, nil
	}
	n, ok := v.Int()
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return 0, false, apierrors.NewBadRequest(fmt.Sprintf("%s is no number of replicas: %s", strings.Join(path, "."), v.Raw()))
	}
	return int32(n), true, nil
}

func (s *Scale) selectorText(obj *document.Document) (string, error) {
	if len(s.selector) == 0 {
		return "", nil
	}
	v := obj.Get(s.selector...)
	if v.Kind() != document.Object {
		return v.String(), nil
	}
	if !v.Get("matchLabels").Exists() && !v.Get("matchExpressions").Exists() {
		set := labels.Set{}
		for name, value := range v.Members() {
			set[name] = value.String()
		}
		return set.String(), nil
	}
	var selector metav1.LabelSelector
	if err := json.Unmarshal(v.Raw(), &selector); err != nil {
		return "", fmt.Errorf("stored selector: %w", err)
	}
	compiled, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return "", fmt.Errorf("stored selector: %w", err)
	}
	return compiled.String(), nil
}

// ScaleLayer is the part of the strategy of a custom resource with a scale subresource
// that checks its numbers of replicas, with upstream's texts.
type ScaleLayer struct {
	rest.NoHooks
	Paths ScalePaths
}

var _ rest.Layer = ScaleLayer{}

// Name implements rest.Layer.
func (ScaleLayer) Name() string { return "scale" }

// Implements implements rest.Layer.
func (ScaleLayer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

// Validate implements rest.Hooks.
func (l ScaleLayer) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	var errs field.ErrorList
	for _, path := range []string{l.Paths.SpecReplicas, l.Paths.StatusReplicas} {
		members := splitPath(path)
		if len(members) == 0 {
			return nil, errors.New("path of replicas is empty")
		}
		v := obj.Get(members...)
		n, ok := v.Int()
		switch {
		case !v.Exists() || !ok:
			// What is no integer is for the schema to say.
		case n < 0:
			errs = append(errs, field.Invalid(field.NewPath(path), n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(field.NewPath(path), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	if l.Paths.LabelSelector != "" {
		v := obj.Get(splitPath(l.Paths.LabelSelector)...)
		if v.Exists() && v.Kind() != document.String {
			errs = append(errs, field.Invalid(field.NewPath(l.Paths.LabelSelector), v.Interface(), "should be a string"))
		}
	}
	return errs, nil
}

// ValidateUpdate implements rest.Hooks.
func (l ScaleLayer) ValidateUpdate(ctx context.Context, obj, _ *document.Document) (field.ErrorList, error) {
	return l.Validate(ctx, obj)
}
