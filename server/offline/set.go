package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/source"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/rest"
)

// Set is a set of policies, with all that they are judged with. It may be used concurrently until it is closed.
type Set struct {
	workbench *Workbench
	resources map[schema.GroupResource]*rest.Resource
	objects   map[schema.GroupResource][]*document.Document
	// index has the bindings as they are, unbound those without params.
	index, unbound *policy.Index
	policies       []*policy.Policy
	modules        map[string]*module
}

// module is a Wasm module of a set.
type module struct {
	wasm         []byte
	limits       host.Limits
	capabilities []string
	// grantAll: there is no Module that says what it may do.
	grantAll bool
	digest   string
	loaded   map[string]*extension.SharedModule // by settings
}

var (
	crdResource    = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	moduleResource = schema.GroupResource{Group: "weir.dev", Resource: "modules"}
)

// Compile makes a set of objects. All that a server would refuse is an error, each with its file. A policy without a
// binding gets one that denies, by every object of its paramKind that is there.
//
// A policy by a module needs its Module among the objects, whose source is inline or a file beside it, or a file
// MODULE.wasm beside the policy.
func (w *Workbench) Compile(ctx context.Context, objects []Object) (_ *Set, err error) {
	s := &Set{workbench: w, resources: maps.Clone(w.resources), objects: map[schema.GroupResource][]*document.Document{}, modules: map[string]*module{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var errs []error
	fail := func(o *Object, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o, err))
		}
	}
	var rules, others []*Object
	for i := range objects {
		o := &objects[i]
		kind := rest.KindOf(o.Document)
		_, isPolicy := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), kind.Kind)
		switch {
		case isPolicy:
			rules = append(rules, o)
		case kind.Group == crdResource.Group && kind.Kind == "CustomResourceDefinition":
			fail(o, s.addDefinition(ctx, o))
		case kind.Group == moduleResource.Group && kind.Kind == "Module":
			fail(o, s.addModule(ctx, o))
		default:
			others = append(others, o)
		}
	}
	for _, o := range others {
		fail(o, s.addObject(o.Document))
	}
	if errs == nil {
		s.compile(ctx, rules, fail)
	}
	return s, errors.Join(errs...)
}

// Close frees the modules.
func (s *Set) Close() {
	for _, m := range s.modules {
		for _, loaded := range m.loaded {
			loaded.Release()
		}
	}
}

// Policies are those of the set, sorted, with their bindings. A policy by a module that both changes and validates is
// there twice.
func (s *Set) Policies() []*policy.Policy { return s.policies }

func (s *Set) addDefinition(ctx context.Context, o *Object) error {
	obj, err := s.workbench.accept(ctx, crdResource, o.Document)
	if err != nil {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(obj.Bytes(), crd); err != nil {
		return err
	}
	definition, err := loader.DefinitionOf(crd)
	if err != nil {
		return err
	}
	r, err := s.workbench.cfg.Builder.Build(definition, true, nil)
	if err != nil {
		return err
	}
	s.resources[r.GroupResource()] = inMemory(r)
	return nil
}

// addObject adds what may be a param, or a namespace.
func (s *Set) addObject(obj *document.Document) error {
	r, err := s.resourceOf(rest.KindOf(obj))
	if err != nil {
		return err
	}
	stored, err := policy.Convert(context.Background(), r, obj, rest.KindOf(obj).Version, r.StorageVersion)
	if err != nil {
		return err
	}
	s.objects[r.GroupResource()] = append(s.objects[r.GroupResource()], stored)
	return nil
}

func (s *Set) resourceOf(kind schema.GroupVersionKind) (*rest.Resource, error) {
	r, _ := (&catalog{resources: s.resources}).ofKind(kind)
	if r == nil {
		return nil, fmt.Errorf("kind %s is not known: it is not built in, and there is no CustomResourceDefinition of it", kind)
	}
	return r, nil
}

func (s *Set) addModule(ctx context.Context, o *Object) error {
	obj, err := s.workbench.accept(ctx, moduleResource, o.Document)
	if err != nil {
		return err
	}
	from := &v1alpha1.Module{}
	if err := json.Unmarshal(obj.Bytes(), from); err != nil {
		return err
	}
	m := &module{loaded: map[string]*extension.SharedModule{}, capabilities: from.Spec.Capabilities, limits: host.Limits{MemoryBytes: int(from.Spec.Limits.MemoryBytes),
		Fuel: uint64(from.Spec.Limits.Fuel), Timeout: time.Duration(from.Spec.Limits.TimeoutMilliseconds) * time.Millisecond}}
	switch source := &from.Spec.Source; {
	case len(source.Inline) > 0:
		m.wasm = source.Inline
	case source.File != "":
		if m.wasm, err = fs.ReadFile(o.FS, path.Join(path.Dir(o.File), source.File)); err != nil {
			return fmt.Errorf("spec.source.file, which is looked for beside this one: %w", err)
		}
	default:
		if m.wasm, err = fs.ReadFile(o.FS, path.Join(path.Dir(o.File), from.Name+".wasm")); err != nil {
			return fmt.Errorf("spec.source is not fetched offline; put the module beside this file: %w", err)
		}
	}
	artefact, err := source.Given("spec.source", m.wasm).Fetch(ctx) // it may be compressed
	if err != nil {
		return fmt.Errorf("spec.source: %w", err)
	}
	if m.wasm = artefact.Module; from.Spec.Source.Digest != "" && from.Spec.Source.Digest != artefact.Digest {
		return fmt.Errorf("spec.source.digest is %s, that of the module is %s", from.Spec.Source.Digest, artefact.Digest)
	}
	if s.modules[from.Name] != nil {
		return errors.New("is there twice")
	}
	s.modules[from.Name] = m
	return nil
}

// guest loads a module with settings.
func (s *Set) guest(ctx context.Context, name string, settings json.RawMessage) (*extension.SharedModule, string, error) {
	m := s.modules[name]
	switch {
	case s.workbench.cfg.Host == nil:
		return nil, "", errors.New("modules are not run here")
	case m == nil:
		return nil, "", fmt.Errorf("no Module %q is given, and there is no %s.wasm beside the policy", name, name)
	}
	if string(settings) == "null" {
		settings = nil
	}
	key := string(settings)
	if m.loaded[key] == nil {
		found, err := s.lookups()
		if err != nil {
			return nil, "", err
		}
		loaded, err := s.workbench.cfg.Host.Load(ctx, m.wasm, host.ModuleConfig{Name: name, Settings: settings, Limits: m.limits, Logger: s.workbench.cfg.Logger,
			Capabilities: m.capabilities, GrantAll: m.grantAll, Lookuper: found, Authorizer: asksRequest{}})
		if err != nil {
			return nil, "", err // which names the module
		}
		m.loaded[key], m.digest = extension.NewSharedModule(loaded, nil), loaded.Digest()
	}
	return m.loaded[key], m.digest, nil
}

// compile compiles policies and bindings.
func (s *Set) compile(ctx context.Context, rules []*Object, fail func(*Object, error)) {
	compiler := loader.NewPolicyCompiler(loader.PolicyCompilerConfig{Engines: s.workbench.cfg.Engines, Rego: s.workbench.cfg.Rego,
		Guest: func(name string, settings json.RawMessage) (*extension.SharedModule, string, error) {
			return s.guest(ctx, name, settings)
		}})
	type key struct{ kind, name string }
	bound, known := map[key]bool{}, map[key]*Object{}
	for _, o := range rules {
		gr, _ := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), o.kind())
		kind, isPolicy := loader.HoldsPolicies(gr)
		if isPolicy {
			known[key{kind, rest.MetaOf(o.Document).Name()}] = o
			s.adopt(o)
		}
		obj, err := s.workbench.accept(ctx, gr, o.Document)
		if err == nil {
			err = compiler.Add(obj)
		}
		fail(o, err)
		if !isPolicy {
			bound[key{kind, o.Document.Get("spec", "policyName").String()}] = true
		}
	}
	for _, o := range rules {
		gr, _ := loader.PolicyResourceOf(o.Document.Get("apiVersion").String(), o.kind())
		if kind, isPolicy := loader.HoldsPolicies(gr); !isPolicy {
			if name := o.Document.Get("spec", "policyName").String(); known[key{kind, name}] == nil {
				fail(o, fmt.Errorf("it binds the %s %q, which is not there", kind, name))
			}
		}
	}
	s.policies = compiler.InForce()
	slices.SortStableFunc(s.policies, func(a, b *policy.Policy) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	var unbound []*policy.Policy
	for _, p := range s.policies {
		if !bound[key{p.Kind, p.Name}] {
			p.Bindings = []*policy.Binding{s.presumed(p)}
		}
		bare := *p
		bare.Bindings = nil
		for _, b := range p.Bindings {
			without := *b
			without.Params = nil
			bare.Bindings = append(bare.Bindings, &without)
		}
		unbound = append(unbound, &bare)
	}
	s.index, s.unbound = policy.NewIndex(s.policies), policy.NewIndex(unbound)
}

// adopt takes the module of a policy from the file beside it, where no Module says otherwise.
func (s *Set) adopt(o *Object) {
	name := o.Document.Get("spec", "wasm", "module").String()
	if name == "" || s.modules[name] != nil || o.FS == nil {
		return
	}
	if wasm, err := fs.ReadFile(o.FS, path.Join(path.Dir(o.File), path.Base(name)+".wasm")); err == nil {
		s.modules[name] = &module{wasm: wasm, grantAll: true, loaded: map[string]*extension.SharedModule{}}
	}
}

// presumed is the binding of a policy that has none: it denies, by all params that there are.
func (s *Set) presumed(p *policy.Policy) *policy.Binding {
	spec := policy.BindingSpec{Actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}
	if p.ParamKind != nil {
		deny := admissionregistrationv1.DenyAction
		spec.Params = &admissionregistrationv1.ParamRef{Selector: &metav1.LabelSelector{}, ParameterNotFoundAction: &deny}
		if r, err := s.resourceOf(*p.ParamKind); err == nil && r.Namespaced {
			spec.Params.Namespace = metav1.NamespaceDefault
			for _, obj := range s.objects[r.GroupResource()] {
				if namespace := rest.MetaOf(obj).Namespace(); namespace != "" {
					spec.Params.Namespace = namespace
				}
			}
		}
	}
	b := policy.FromBinding(p.Name, spec)
	if b.Params != nil {
		b.Params.Selector = ofPolicy{labels.Everything(), p.Kind, p.Name}
	}
	return b
}
