package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apply"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/registry"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
	weirschema "weir.dev/weir/server/schema"
	"weir.dev/weir/server/storage"
)

// builder makes a resource that can be served of its definition. Built-in resources and those of
// CustomResourceDefinitions go through the same code.
type builder struct {
	set      *resources.Set
	storages rowStorages
	// prefix of all keys, e.g. /registry.
	prefix string
	// virtual serves the resources that are not stored, such as reviews.
	virtual map[schema.GroupResource]any
	// native are the layers of kinds that are guarded in Go alone, by resource and subresource.
	native map[schema.GroupResource]func(subresource string) []rest.Layer
	// engine compiles the conditional defaults of built-in kinds.
	engine policies.Engine
	logger *slog.Logger
	// ttlSeconds are in the place of what definitions say.
	ttlSeconds map[schema.GroupResource]uint64
	// wait waits until a write to a configuration resource is in force; nil: nothing is written.
	wait func(ctx context.Context, resource schema.GroupResource, resourceVersion string) error
	// impact tells what a policy or binding would do to what is stored.
	impact func(ctx context.Context, obj *document.Document)

	mu    sync.Mutex
	types map[schema.GroupVersion]*apply.Types // guarded by mu
	// building is held while a custom resource is built.
	building sync.Mutex
	// shown are what rows of custom resources become in each version as it is now. guarded by mu
	shown map[schema.GroupVersionResource]*shown
}

// rows says what the rows of a resource are, and what they are selected by.
type rows struct {
	// prefix is how their keys begin.
	prefix     string
	namespaced bool
	fields     []registry.Field
	// upgrade gives a row what is shown of it in any version, where that may have a field that the row lacks; nil: never. schemas
	// is another where it is.
	upgrade upgradeFunc
	schemas string
}

// rowStorages has what stores the rows of each resource.
type rowStorages interface {
	// get returns the storage of a resource. settle, called once, says whether it takes the place of the one before, which goes on
	// until then.
	get(gr schema.GroupResource, rows rows) (stored storage.Interface, settle func(use bool), err error)
	// drop stops the storage of a resource that is served no more.
	drop(gr schema.GroupResource)
}

func newBuilder(set *resources.Set, storages rowStorages, prefix string, engines policies.Engines, rego loader.RegoCompiler, logger *slog.Logger) *builder {
	engine := engines.Rules
	layer := func(l rest.Layer) func(string) []rest.Layer {
		return func(subresource string) []rest.Layer {
			if subresource != "" {
				return nil
			}
			return []rest.Layer{l}
		}
	}
	b := &builder{
		set: set, storages: storages, prefix: prefix, engine: engine, logger: logger,
		native: map[schema.GroupResource]func(string) []rest.Layer{
			{Resource: "namespaces"}: layer(registry.NamespaceLayer{}),
			{Resource: "configmaps"}: layer(registry.ConfigMapLayer{}),
			{Resource: "secrets"}:    layer(registry.SecretLayer{}),
			definitionResource: func(subresource string) []rest.Layer {
				return []rest.Layer{loader.CRDLayer(subresource)}
			},
			{Group: "weir.dev", Resource: "modules"}:    layer(loader.ModuleGuard()),
			{Group: "weir.dev", Resource: "strategies"}: layer(loader.StrategyGuard(engine)),
		},
	}
	for _, gr := range loader.PolicyResources() {
		b.native[gr] = layer(loader.PolicyGuard(engines, rego, gr))
	}
	return b
}

// guard adds a native layer after those that a resource has.
func (b *builder) guard(gr schema.GroupResource, layer rest.Layer) {
	others := b.native[gr]
	b.native[gr] = func(subresource string) []rest.Layer {
		if subresource != "" {
			return nil
		}
		return append(others(subresource), layer)
	}
}

// scaleModel is the published name of autoscaling/v1 Scale.
const scaleModel = "io.k8s.api.autoscaling.v1.Scale"

// Build returns the resource of d. layers gives those of its Strategy, per subresource; nil: it has none. Where it fails, what was
// made before of d's resource goes on.
func (b *builder) Build(d *resources.Definition, custom bool, layers func(subresource string) []rest.Layer) (*rest.Resource, error) {
	r := &rest.Resource{
		Group: d.Group, Name: d.Resource, Singular: d.Singular, Kind: d.Kind, ListKind: d.ListKind,
		ShortNames: d.ShortNames, Categories: d.Categories, Namespaced: d.Namespaced,
		StorageVersion: d.StorageVersion, Custom: custom,
	}
	var types *apply.Types
	if custom {
		b.building.Lock()
		defer b.building.Unlock()
		types = b.customTypes(d)
	}
	upgrades := map[*shown]upgradeFunc{}
	rows, err := b.rows(d, custom)
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", d.GroupResource(), err)
	}
	var stored storage.Interface
	built := false
	if slices.ContainsFunc(d.Versions, func(v resources.Version) bool { return v.Served && !v.Virtual }) {
		var settle func(use bool)
		if stored, settle, err = b.storages.get(d.GroupResource(), rows); err != nil {
			return nil, fmt.Errorf("resource %s: %w", d.GroupResource(), err)
		}
		defer func() { settle(built) }()
	}
	for i := range d.Versions {
		v := &d.Versions[i]
		if !custom {
			types = b.builtInTypes(schema.GroupVersion{Group: d.Group, Version: v.Name})
		}
		if !v.Served || (v.Virtual && b.virtual[d.GroupResource()] == nil) {
			continue
		}
		version, err := b.version(d, v, versionParts{types: types, custom: custom, layers: layers, rows: rows, stored: stored, upgrades: upgrades})
		if err != nil {
			return nil, fmt.Errorf("resource %s version %s: %w", d.GroupResource(), v.Name, err)
		}
		r.Versions = append(r.Versions, version)
	}
	for shown, upgrade := range upgrades {
		shown.now.Store(&upgrade)
	}
	built = true
	return r, nil
}

// Drop frees what Build made for a resource that is served no more.
func (b *builder) Drop(gr schema.GroupResource) {
	b.storages.drop(gr)
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.shown, func(gvr schema.GroupVersionResource, _ *shown) bool { return gvr.GroupResource() == gr })
}

// versionParts are what the versions of a resource are made of besides their definition.
type versionParts struct {
	types  *apply.Types
	custom bool
	layers func(subresource string) []rest.Layer
	rows   rows
	stored storage.Interface
	// upgrades are to be in force when all versions are made.
	upgrades map[*shown]upgradeFunc
}

func (b *builder) version(d *resources.Definition, v *resources.Version, parts versionParts) (*rest.Version, error) {
	custom, layers := parts.custom, parts.layers
	kind := schema.GroupVersionKind{Group: d.Group, Version: v.Name, Kind: d.Kind}
	out := &rest.Version{
		Name:               v.Name,
		Deprecated:         v.Deprecated != "",
		DeprecationWarning: v.Deprecated,
		Subresources:       map[string]*rest.Subresource{},
		OpenAPI:            b.openAPI(d, v),
	}
	fields, err := b.schemaOf(d, v, custom)
	if err != nil {
		return nil, err
	}
	out.Schema = fields
	if v.Virtual {
		out.Storage = b.virtual[d.GroupResource()]
		return out, nil
	}
	if custom || len(d.Versions) > 1 { // the versions of a built-in kind have the same fields, too
		out.Converter = renamer{group: d.Group}
	}
	out.Columns = columns(v.TableColumns())
	for _, f := range v.SelectableFields {
		out.SelectableFields = append(out.SelectableFields, f.Name)
	}
	if !custom && v.SchemaName != "" {
		out.PatchMeta = &patchMeta{set: b.set, name: v.SchemaName}
	}

	all := func(subresource string) []rest.Layer {
		var list []rest.Layer
		if !custom && v.SchemaName != "" {
			list = append(list, newQuantityLayer(b.set, d, v))
		}
		list = append(list, fields.Layer(subresource))
		if rules := newRulesLayer(b.engine, d, subresource); rules != nil {
			list = append(list, rules)
		}
		if native := b.native[d.GroupResource()]; native != nil {
			list = append(list, native(subresource)...)
		}
		if custom && v.Scale != nil {
			list = append(list, registry.ScaleLayer{Paths: scalePaths(v.Scale)})
		}
		if layers != nil {
			list = append(list, layers(subresource)...)
		}
		return list
	}
	strategy := func(subresource string, writes ...[]string) (*rest.Generic, error) {
		return rest.NewGeneric(rest.GenericConfig{
			Resource: d.GroupResource(), Kind: kind, Namespaced: d.Namespaced, StatusEnabled: v.Status,
			Subresource: subresource, Writes: writes, Keeps: keeps(v), NoGeneration: !custom && !d.Generation, Custom: custom,
			Layers: all(subresource), AllowUnconditionalUpdate: !custom, AllowCreateOnUpdate: d.CreateOnUpdate,
			NameValidator: nameValidator(d.NameFormat),
		})
	}
	main, err := strategy("")
	if err != nil {
		return nil, err
	}
	config := registry.Config{
		Resource: d.GroupResource(), Prefix: parts.rows.prefix, Storage: parts.stored, Strategy: main,
		SelectableFields: selectable(v), TTLSeconds: d.TTLSeconds,
	}
	if ttl, ok := b.ttlSeconds[config.Resource]; ok {
		config.TTLSeconds = ttl
	}
	if config.Resource == definitionResource {
		config.Upgrade = upgradeDefinition
	}
	if custom && (d.Revised || v.Name != d.StorageVersion) {
		upgrade, downgrade, err := b.upgrade(d, v, fields)
		if err != nil {
			return nil, err
		}
		shown := b.shownIn(d.GroupResource().WithVersion(v.Name), upgrade)
		parts.upgrades[shown] = upgrade
		config.Upgrade, config.Downgrade = shown.in(d.Group, d.StorageVersion), downgrade
	}
	store, err := b.store(d, config, out)
	if err != nil {
		return nil, err
	}
	if out.Fields, err = b.tracker(d, v, fields, parts, ""); err != nil {
		return nil, err
	}
	if v.Scale != nil {
		if err := b.scale(d, v, store, out); err != nil {
			return nil, err
		}
	}
	subresources := v.Subresources
	if v.Status {
		status := resources.Subresource{Name: rest.SubresourceStatus, Writes: []string{"status"}}
		for _, name := range v.StatusMetadata {
			status.Writes = append(status.Writes, "metadata."+name)
		}
		subresources = append([]resources.Subresource{status}, subresources...)
	}
	for _, sub := range subresources {
		var writes [][]string
		for _, path := range sub.Writes {
			writes = append(writes, strings.Split(path, "."))
		}
		s, err := strategy(sub.Name, writes...)
		if err != nil {
			return nil, err
		}
		served := &rest.Subresource{Name: sub.Name, GroupVersionKind: kind, Storage: store.Subresource(s)}
		if served.Fields, err = b.tracker(d, v, fields, parts, sub.Name); err != nil {
			return nil, err
		}
		out.Subresources[sub.Name] = served
	}
	return out, nil
}

// rows returns what the rows of a resource are. Those of a custom resource that were stored before a field had a default are
// selected by it, as they are shown with it.
func (b *builder) rows(d *resources.Definition, custom bool) (rows, error) {
	r := rows{prefix: b.prefix + "/" + d.StoragePrefix, namespaced: d.Namespaced, fields: allSelectable(d)}
	if !custom || !d.Revised || len(r.fields) == 0 {
		return r, nil
	}
	sum := sha256.New()
	defaults := false
	for i := range d.Versions {
		v := &d.Versions[i]
		text, err := json.Marshal(v.Inline)
		if err != nil {
			return r, err
		}
		defaults = defaults || bytes.Contains(text, []byte(`"default":`))
		fmt.Fprintf(sum, "%q %q\n", v.Name, text)
	}
	if !defaults {
		return r, nil
	}
	r.schemas = hex.EncodeToString(sum.Sum(nil))
	kinds, err := b.kinds(d)
	// A field that a version is selected by is in its schema: no version that is selected by it prunes it.
	r.upgrade = asWritten(kinds)
	return r, err
}

// selectable returns the fields that selectors of a version may name.
func selectable(v *resources.Version) []registry.Field {
	fields := make([]registry.Field, 0, len(v.SelectableFields))
	for _, f := range v.SelectableFields {
		fields = append(fields, registry.Field{Name: f.Name, Path: f.Path, Default: f.Default})
	}
	return fields
}

// allSelectable returns the fields that selectors of any version may name: all versions have the same rows.
func allSelectable(d *resources.Definition) []registry.Field {
	var all []registry.Field
	for i := range d.Versions {
		for _, f := range selectable(&d.Versions[i]) {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// store makes what stores the objects of a version, and puts before it what its resource needs.
func (b *builder) store(d *resources.Definition, config registry.Config, out *rest.Version) (*registry.Store, error) {
	gr := d.GroupResource()
	if gr == (schema.GroupResource{Resource: "namespaces"}) {
		namespaces, err := registry.NewNamespaces(config)
		if err != nil {
			return nil, err
		}
		out.Storage = namespaces
		return namespaces.Store(), nil
	}
	store, err := registry.New(config)
	if err != nil {
		return nil, err
	}
	out.Storage = store
	if isConfiguration(gr) && b.wait != nil {
		barrier := loader.NewBarrier(store, func(ctx context.Context, rv string) error { return b.wait(ctx, gr, rv) })
		out.Storage = barrier
		if slices.Contains(loader.PolicyResources(), gr) {
			out.Storage = loader.NewPolicyDryRun(barrier, func(ctx context.Context, obj *document.Document) { b.impact(ctx, obj) })
		}
	}
	return store, nil
}

// isConfiguration reports whether a write to a resource changes what is served, or who may ask for it.
func isConfiguration(gr schema.GroupResource) bool {
	return gr.Group == "weir.dev" || gr.Group == "rbac.authorization.k8s.io" || gr.Group == "admissionregistration.k8s.io" || gr == definitionResource
}

// keeps returns the paths that only a subresource other than status writes.
func keeps(v *resources.Version) [][]string {
	var paths [][]string
	for _, sub := range v.Subresources {
		for _, path := range sub.Writes {
			if strings.HasPrefix(path, "spec.") {
				paths = append(paths, strings.Split(path, "."))
			}
		}
	}
	return paths
}

// scale adds the scale subresource of a version.
func (b *builder) scale(d *resources.Definition, v *resources.Version, store *registry.Store, out *rest.Version) error {
	versions := make([]string, 0, len(d.Versions))
	for i := range d.Versions {
		versions = append(versions, d.Versions[i].Name)
	}
	scale, err := registry.NewScale(store, scalePaths(v.Scale), schema.GroupVersion{Group: d.Group, Version: d.StorageVersion}, versions)
	if err != nil {
		return err
	}
	kind := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	sub := &rest.Subresource{Name: "scale", GroupVersionKind: kind, Storage: scale}
	if sub.Schema, err = weirschema.New(weirschema.Config{Kind: kind, DropNulls: true,
		Source: func() (*apiextensionsv1.JSONSchemaProps, error) { return b.set.ValidationSchema(scaleModel) }}); err != nil {
		return err
	}
	if sub.Fields, err = apply.New(apply.Config{Kind: kind, StorageVersion: kind.Version, Subresource: "scale",
		Types: apply.NewTypes(func() (map[string]*spec.Schema, error) { return b.set.SchemaClosure(scaleModel) }, false)}); err != nil {
		return err
	}
	out.Subresources["scale"] = sub
	return nil
}

func scalePaths(s *resources.Scale) registry.ScalePaths {
	return registry.ScalePaths{SpecReplicas: s.SpecReplicasPath, StatusReplicas: s.StatusReplicasPath, LabelSelector: s.LabelSelectorPath}
}

// schemaOf returns what knows the fields of a version.
func (b *builder) schemaOf(d *resources.Definition, v *resources.Version, custom bool) (*weirschema.Kind, error) {
	config := weirschema.Config{
		Kind:            schema.GroupVersionKind{Group: d.Group, Version: v.Name, Kind: d.Kind},
		PreserveUnknown: v.PreserveUnknown,
		DropNulls:       !custom,
	}
	switch {
	case v.Inline != nil:
		config.Source = func() (*apiextensionsv1.JSONSchemaProps, error) { return v.Inline, nil }
	case v.SchemaName != "":
		config.Source = func() (*apiextensionsv1.JSONSchemaProps, error) { return b.set.ValidationSchema(v.SchemaName) }
	}
	return weirschema.New(config)
}

// openAPI returns what publishes the schema of a version.
func (b *builder) openAPI(d *resources.Definition, v *resources.Version) rest.OpenAPISource {
	return openAPISource(func() (string, map[string]*spec.Schema, error) {
		if v.SchemaName != "" {
			definitions, err := b.set.SchemaClosure(v.SchemaName)
			return v.SchemaName, definitions, err
		}
		definitions, err := customDefinitions(b.set, d, v)
		return customDefinitionName(d, v), definitions, err
	})
}

// openAPISource encodes definitions when they are asked for.
type openAPISource func() (string, map[string]*spec.Schema, error)

// Definitions implements rest.OpenAPISource.
func (f openAPISource) Definitions() (string, map[string][]byte, error) {
	name, schemas, err := f()
	if err != nil {
		return "", nil, err
	}
	encoded := make(map[string][]byte, len(schemas))
	for name, s := range schemas {
		if encoded[name], err = json.Marshal(s); err != nil {
			return "", nil, fmt.Errorf("schema %s: %w", name, err)
		}
	}
	return name, encoded, nil
}

// columns returns the columns of a table.
func columns(in []resources.Column) []rest.Column {
	out := make([]rest.Column, 0, len(in))
	for i := range in {
		c := &in[i]
		out = append(out, rest.Column{
			TableColumnDefinition: metav1.TableColumnDefinition{
				Name: c.Name, Type: c.Type, Format: c.Format, Description: c.Description, Priority: c.Priority},
			Cell: c.Cell,
		})
	}
	return out
}

// patchMeta guides strategic merge patches by the published schema, which it reads at the first patch.
type patchMeta struct {
	set  *resources.Set
	name string

	once sync.Once
	meta strategicpatch.PatchMetaFromOpenAPIV3
	err  error
}

var _ strategicpatch.LookupPatchMeta = (*patchMeta)(nil)

func (p *patchMeta) load() (strategicpatch.PatchMetaFromOpenAPIV3, error) {
	p.once.Do(func() {
		definitions, err := p.set.SchemaClosure(p.name)
		if err != nil {
			p.err = err
			return
		}
		p.meta = strategicpatch.PatchMetaFromOpenAPIV3{SchemaList: definitions, Schema: definitions[p.name]}
	})
	return p.meta, p.err
}

// LookupPatchMetadataForStruct implements strategicpatch.LookupPatchMeta.
func (p *patchMeta) LookupPatchMetadataForStruct(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	m, err := p.load()
	if err != nil {
		return nil, strategicpatch.PatchMeta{}, err
	}
	return m.LookupPatchMetadataForStruct(key)
}

// LookupPatchMetadataForSlice implements strategicpatch.LookupPatchMeta.
func (p *patchMeta) LookupPatchMetadataForSlice(key string) (strategicpatch.LookupPatchMeta, strategicpatch.PatchMeta, error) {
	m, err := p.load()
	if err != nil {
		return nil, strategicpatch.PatchMeta{}, err
	}
	return m.LookupPatchMetadataForSlice(key)
}

// Name implements strategicpatch.LookupPatchMeta.
func (p *patchMeta) Name() string { return p.name }
