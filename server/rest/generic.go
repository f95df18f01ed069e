package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// SubresourceStatus is the name of the subresource that takes only the status of an object.
const SubresourceStatus = "status"

// GenericConfig says what a Generic strategy does around its layers.
type GenericConfig struct {
	// Resource whose strategy it is; it names it in errors.
	Resource schema.GroupResource
	// Kind of the objects, in their stored version.
	Kind       schema.GroupVersionKind
	Namespaced bool
	// StatusEnabled says that the status is written through the status subresource only.
	StatusEnabled bool
	// Subresource whose updates this strategy is for: "" the object itself, "status", or
	// another such as "finalize".
	Subresource string
	// Writes are the paths that an update of the Subresource takes from the new object,
	// besides metadata.managedFields; all else stays. Nil is {{"status"}} for "status".
	Writes [][]string
	// Keeps are paths that an update of the object itself leaves as they are, since
	// only a subresource writes them.
	Keeps [][]string
	// NoGeneration is for kinds that upstream gives no metadata.generation, such as ConfigMap.
	NoGeneration bool
	// Custom is set for custom resources; their finalizers are warned about, as upstream does.
	Custom bool
	// Layers run in this order in every hook.
	Layers                   []Layer
	AllowUnconditionalUpdate bool
	AllowCreateOnUpdate      bool
	// NameValidator says what is wrong with a name; nil: DNS subdomain.
	NameValidator func(name string, prefix bool) []string
	// GracePeriod makes deletion graceful, see GracefulStrategy; nil: it is not.
	GracePeriod func(obj *document.Document, opts *metav1.DeleteOptions) (seconds int64, graceful bool)
}

// Validate reports what is missing.
func (c *GenericConfig) Validate() error {
	switch {
	case c.Resource.Resource == "":
		return errors.New("strategy: resource is empty")
	case c.Kind.Kind == "" || c.Kind.Version == "":
		return fmt.Errorf("strategy %s: kind or version is empty", c.Resource)
	case c.Subresource != "" && c.Subresource != SubresourceStatus && len(c.Writes) == 0:
		return fmt.Errorf("strategy %s/%s: writes nothing", c.Resource, c.Subresource)
	}
	return nil
}

// Generic is the strategy of every resource: it knows metadata, status and generation,
// and runs layers for all that is particular. It is immutable.
type Generic struct {
	cfg GenericConfig
	// by hook, the layers that implement it
	defaults, prepareCreate, validate, warnCreate []Layer
	prepareUpdate, validateUpdate, warnUpdate     []Layer
	validateDelete, canonicalize                  []Layer
}

var (
	_ Strategy         = (*Generic)(nil)
	_ Generationer     = (*Generic)(nil)
	_ GracefulStrategy = (*Generic)(nil)
)

// NewGeneric returns the strategy that cfg describes.
func NewGeneric(cfg GenericConfig) (*Generic, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.NameValidator == nil {
		cfg.NameValidator = dnsSubdomain
	}
	if cfg.Subresource == SubresourceStatus && cfg.Writes == nil {
		cfg.Writes = [][]string{{"status"}}
	}
	cfg.Layers = slices.Clone(cfg.Layers)
	with := func(h Hook) (out []Layer) {
		for _, l := range cfg.Layers {
			if l.Implements().Has(h) {
				out = append(out, l)
			}
		}
		return out
	}
	return &Generic{
		cfg:            cfg,
		defaults:       with(HookDefault),
		prepareCreate:  with(HookPrepareForCreate),
		validate:       with(HookValidate),
		warnCreate:     with(HookWarningsOnCreate),
		prepareUpdate:  with(HookPrepareForUpdate),
		validateUpdate: with(HookValidateUpdate),
		warnUpdate:     with(HookWarningsOnUpdate),
		validateDelete: with(HookValidateDelete),
		canonicalize:   with(HookCanonicalize),
	}, nil
}

func dnsSubdomain(name string, prefix bool) []string {
	if prefix && strings.HasSuffix(name, "-") {
		name = name[:len(name)-1] + "a"
	}
	return validation.IsDNS1123Subdomain(name)
}

// PathSegmentName accepts every name that can be part of a path; kinds such as Role use it.
func PathSegmentName(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// Config returns what the strategy was made of. The caller must not write to its slices.
func (g *Generic) Config() GenericConfig { return g.cfg }

// NamespaceScoped implements Strategy.
func (g *Generic) NamespaceScoped() bool { return g.cfg.Namespaced }

// AllowCreateOnUpdate implements Strategy.
func (g *Generic) AllowCreateOnUpdate() bool { return g.cfg.AllowCreateOnUpdate }

// AllowUnconditionalUpdate implements Strategy.
func (g *Generic) AllowUnconditionalUpdate() bool { return g.cfg.AllowUnconditionalUpdate }

// ValidateName implements Strategy.
func (g *Generic) ValidateName(name string, prefix bool) []string {
	return g.cfg.NameValidator(name, prefix)
}

// GracePeriod implements GracefulStrategy.
func (g *Generic) GracePeriod(obj *document.Document, opts *metav1.DeleteOptions) (int64, bool) {
	if g.cfg.GracePeriod == nil {
		return 0, false
	}
	return g.cfg.GracePeriod(obj, opts)
}

func (g *Generic) preparesDefaulted() {}

// Default implements Strategy.
func (g *Generic) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return g.change(obj, g.defaults, "Default", func(l Layer, obj *document.Document) (*document.Document, error) {
		return l.Default(ctx, obj)
	})
}

// PrepareForCreate implements Strategy: without status where that has its
// subresource, and with defaults.
func (g *Generic) PrepareForCreate(ctx context.Context, obj *document.Document) (*document.Document, error) {
	given := obj
	if g.cfg.StatusEnabled && obj.Get("status").Exists() {
		var err error
		if obj, err = obj.Edit().Delete("status").Document(); err != nil {
			return nil, err
		}
	}
	obj, err := g.change(obj, g.prepareCreate, "PrepareForCreate", func(l Layer, obj *document.Document) (*document.Document, error) {
		return l.PrepareForCreate(ctx, obj)
	})
	if err != nil || obj == given {
		return obj, err
	}
	return g.Default(ctx, obj)
}

// PrepareForUpdate implements Strategy: the status and Keeps are the old ones, or for
// a subresource all but Writes and managedFields; with defaults.
func (g *Generic) PrepareForUpdate(ctx context.Context, obj, old *document.Document) (*document.Document, error) {
	given := obj
	obj, err := g.preserve(obj, old)
	if err != nil {
		return nil, err
	}
	obj, err = g.change(obj, g.prepareUpdate, "PrepareForUpdate", func(l Layer, obj *document.Document) (*document.Document, error) {
		return l.PrepareForUpdate(ctx, obj, old)
	})
	if err != nil || obj == given {
		return obj, err
	}
	return g.Default(ctx, obj)
}

func (g *Generic) preserve(obj, old *document.Document) (*document.Document, error) {
	if g.cfg.Subresource != "" {
		return only(obj, old, g.cfg.Writes)
	}
	var err error
	if g.cfg.StatusEnabled {
		if obj, err = keep(obj, old, "status"); err != nil {
			return nil, err
		}
	}
	for _, path := range g.cfg.Keeps {
		if obj, err = keep(obj, old, path...); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

// only returns old with what obj has at paths, and with its managedFields.
func only(obj, old *document.Document, paths [][]string) (*document.Document, error) {
	e := old.Edit()
	set := func(path ...string) {
		switch v := obj.Get(path...); {
		case v.Exists():
			e.Set(v, path...)
		case old.Get(path...).Exists():
			e.Delete(path...)
		}
	}
	for _, path := range paths {
		set(path...)
	}
	set("metadata", "managedFields")
	return e.Document()
}

// keep gives obj the member at path that old has.
func keep(obj, old *document.Document, path ...string) (*document.Document, error) {
	was, is := old.Get(path...), obj.Get(path...)
	switch {
	case was.Equal(is):
		return obj, nil
	case was.Exists():
		return obj.Edit().Set(was, path...).Document()
	default:
		return obj.Edit().Delete(path...).Document()
	}
}

// Generation implements Generationer: 1 for a new object, and one more for every update
// that changes anything but metadata and, where it has its subresource, status.
func (g *Generic) Generation(obj, old *document.Document) int64 {
	if g.cfg.NoGeneration {
		return 0
	}
	if old == nil {
		return 1
	}
	was := MetaOf(old).Generation()
	if g.cfg.Subresource == SubresourceStatus || !g.wantsOther(obj, old) {
		return was
	}
	return was + 1
}

func (g *Generic) wantsOther(obj, old *document.Document) bool {
	ignored := func(name string) bool {
		return name == "metadata" || name == "status" && g.cfg.StatusEnabled
	}
	n := 0
	for name, v := range obj.Root().Members() {
		if ignored(name) {
			continue
		}
		n++
		if was := old.Get(name); !was.Exists() || !was.Equal(v) {
			return true
		}
	}
	for name := range old.Root().Members() {
		if !ignored(name) {
			n--
		}
	}
	return n != 0
}

// Validate implements Strategy.
func (g *Generic) Validate(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	errs, err := g.judge(g.validate, "Validate", func(l Layer) (field.ErrorList, error) { return l.Validate(ctx, obj) })
	return append(g.finalizerErrors(obj, nil), errs...), err
}

// ValidateUpdate implements Strategy.
func (g *Generic) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	errs, err := g.judge(g.validateUpdate, "ValidateUpdate", func(l Layer) (field.ErrorList, error) { return l.ValidateUpdate(ctx, obj, old) })
	return append(g.finalizerErrors(obj, old), errs...), err
}

// ValidateDelete implements Strategy.
func (g *Generic) ValidateDelete(ctx context.Context, obj *document.Document) (field.ErrorList, error) {
	return g.judge(g.validateDelete, "ValidateDelete", func(l Layer) (field.ErrorList, error) { return l.ValidateDelete(ctx, obj) })
}

// WarningsOnCreate implements Strategy.
func (g *Generic) WarningsOnCreate(ctx context.Context, obj *document.Document) ([]string, error) {
	warnings, err := g.warn(g.warnCreate, "WarningsOnCreate", func(l Layer) ([]string, error) { return l.WarningsOnCreate(ctx, obj) })
	if err != nil || !g.cfg.Custom {
		return warnings, err
	}
	return append(finalizerWarnings(obj, nil), warnings...), nil
}

// WarningsOnUpdate implements Strategy.
func (g *Generic) WarningsOnUpdate(ctx context.Context, obj, old *document.Document) ([]string, error) {
	warnings, err := g.warn(g.warnUpdate, "WarningsOnUpdate", func(l Layer) ([]string, error) { return l.WarningsOnUpdate(ctx, obj, old) })
	if err != nil || !g.cfg.Custom {
		return warnings, err
	}
	return append(finalizerWarnings(obj, old), warnings...), nil
}

// Canonicalize implements Strategy.
func (g *Generic) Canonicalize(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return g.change(obj, g.canonicalize, "Canonicalize", func(l Layer, obj *document.Document) (*document.Document, error) {
		return l.Canonicalize(ctx, obj)
	})
}

func (g *Generic) change(obj *document.Document, layers []Layer, hook string, call func(Layer, *document.Document) (*document.Document, error)) (*document.Document, error) {
	for _, l := range layers {
		next, err := call(l, obj)
		if err != nil {
			return nil, g.failed(l, hook, err)
		}
		if next == nil {
			return nil, g.failed(l, hook, errors.New("hook returned no object"))
		}
		obj = next
	}
	return obj, nil
}

func (g *Generic) judge(layers []Layer, hook string, call func(Layer) (field.ErrorList, error)) (field.ErrorList, error) {
	var all field.ErrorList
	for _, l := range layers {
		errs, err := call(l)
		if err != nil {
			return nil, g.failed(l, hook, err)
		}
		for _, e := range errs {
			if !saidBefore(all, e) {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// saidBefore reports whether another layer refused the same value for not being one of those that are supported, as a schema
// and native code both do.
func saidBefore(all field.ErrorList, e *field.Error) bool {
	return e.Type == field.ErrorTypeNotSupported && slices.ContainsFunc(all, func(have *field.Error) bool {
		return have.Type == e.Type && have.Field == e.Field && fmt.Sprint(have.BadValue) == fmt.Sprint(e.BadValue)
	})
}

func (g *Generic) warn(layers []Layer, hook string, call func(Layer) ([]string, error)) ([]string, error) {
	var all []string
	for _, l := range layers {
		warnings, err := call(l)
		if err != nil {
			return nil, g.failed(l, hook, err)
		}
		all = append(all, warnings...)
	}
	return all, nil
}

func (g *Generic) failed(l Layer, hook string, err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return &HookError{Resource: g.cfg.Resource, Layer: l.Name(), Hook: hook, Err: err}
}
