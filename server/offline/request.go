package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/rest"
)

// Request is what is judged.
type Request struct {
	// Review has the fields of AdmissionRequest in admission.k8s.io/v1, its object and oldObject among them. What
	// follows of the object may be left out.
	Review document.Value
	// Namespace is the namespace of the request, nil where the set has it, or nothing is known of it but its name.
	Namespace *document.Document
	// Params, where they are not nil, are what every binding finds. WithoutParams has every policy judge by null.
	Params        []*document.Document
	WithoutParams bool
	// Allow is what users may do, where a policy asks.
	Allow lookup.Allowed
	// Bound are what policies judged by when the request was made. They count where the set has no such objects.
	Bound []BoundParam
	// Time of the request; the zero value: always the same.
	Time time.Time
	// Default fills in what changed objects leave out, as a server does. What a request brings is taken as it is.
	Default bool
	// OnlyMutate and OnlyValidate leave out the other half.
	OnlyMutate, OnlyValidate bool
}

// BoundParam is an object that a policy judged by.
type BoundParam struct {
	Kind, Policy string
	Object       *document.Document
}

// attributes describes a request to admission.
func (s *Set) attributes(r *Request) (*admission.Attributes, error) {
	v := r.Review
	a := &admission.Attributes{
		Operation: admission.Operation(v.Get("operation").String()), Subresource: cmp.Or(v.Get("requestSubResource").String(), v.Get("subResource").String()),
		Name: v.Get("name").String(), Namespace: v.Get("namespace").String(), UID: v.Get("uid").String(),
		User: userOf(v.Get("userInfo")), Object: objectOf(v.Get("object")), OldObject: objectOf(v.Get("oldObject")), Options: objectOf(v.Get("options")),
	}
	a.DryRun, _ = v.Get("dryRun").Bool()
	about := a.Object
	if about == nil {
		about = a.OldObject
	}
	if about != nil {
		a.Kind = rest.KindOf(about)
		meta := rest.MetaOf(about)
		a.Name, a.Namespace = cmp.Or(a.Name, meta.Name()), cmp.Or(a.Namespace, meta.Namespace())
	} else if a.Kind = kindIn(v.Get("requestKind")); a.Kind.Kind == "" {
		a.Kind = kindIn(v.Get("kind"))
	}
	switch a.Operation {
	case admission.Create, admission.Update:
		if a.Object == nil {
			return nil, fmt.Errorf("operation %s without an object", a.Operation)
		}
	case admission.Delete, admission.Connect:
	default:
		return nil, fmt.Errorf("operation %q does not exist", a.Operation)
	}
	named := v.Get("requestResource")
	if !named.Exists() {
		named = v.Get("resource")
	}
	a.Resource = schema.GroupVersionResource{Group: named.Get("group").String(), Version: named.Get("version").String(), Resource: named.Get("resource").String()}
	var of *rest.Resource
	var err error
	if a.Resource.Resource == "" {
		if of, err = s.resourceOf(a.Kind); err != nil {
			if a.Kind.Group == "autoscaling" && a.Kind.Kind == "Scale" || a.Subresource != "" {
				err = fmt.Errorf("a %s is of which resource? give the request a subResource and a resource, such as {subResource: scale, resource: {group: apps, version: v1, resource: deployments}}", a.Kind.Kind)
			}
			return nil, err
		}
		a.Resource = schema.GroupVersionResource{Group: of.Group, Version: a.Kind.Version, Resource: of.Name}
	} else if of = s.resources[a.Resource.GroupResource()]; of == nil {
		return nil, fmt.Errorf("resource %s is not known: it is not built in, and there is no CustomResourceDefinition of it", a.Resource.GroupResource())
	}
	switch {
	case of.Namespaced && a.Namespace == "":
		a.Namespace = "default"
	case a.Resource.GroupResource() == namespaceResource:
		a.Namespace = a.Name
	case !of.Namespaced:
		a.Namespace = ""
	}
	if r.Default {
		a.Default = s.defaults(a, of)
	}
	return a, nil
}

// defaults returns what fills in what an object of a request leaves out.
func (s *Set) defaults(a *admission.Attributes, of *rest.Resource) func(context.Context, *document.Document) (*document.Document, error) {
	version := of.Version(a.Kind.Version)
	if a.Subresource != "" || version == nil || a.Kind.Kind != of.Kind {
		return nil
	}
	m, ok := version.Storage.(memory)
	if !ok || m.strategy == nil {
		return nil
	}
	return func(ctx context.Context, obj *document.Document) (*document.Document, error) {
		var err error
		if d, ok := version.Schema.(interface {
			Default(ctx context.Context, obj *document.Document) (*document.Document, error)
		}); ok {
			if obj, err = d.Default(ctx, obj); err != nil {
				return nil, err
			}
		}
		if obj, err = policy.Convert(ctx, of, obj, a.Kind.Version, of.StorageVersion); err != nil {
			return nil, err
		}
		if obj, err = m.strategy.Default(ctx, obj); err != nil {
			return nil, err
		}
		return policy.Convert(ctx, of, obj, of.StorageVersion, a.Kind.Version)
	}
}

func objectOf(v document.Value) *document.Document {
	if v.Kind() != document.Object {
		return nil
	}
	return v.Document()
}

func kindIn(v document.Value) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: v.Get("group").String(), Version: v.Get("version").String(), Kind: v.Get("kind").String()}
}

func userOf(v document.Value) user.Info {
	u := &user.DefaultInfo{Name: v.Get("username").String(), UID: v.Get("uid").String()}
	for _, g := range v.Get("groups").Elements() {
		u.Groups = append(u.Groups, g.String())
	}
	for name, values := range v.Get("extra").Members() {
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		for _, value := range values.Elements() {
			u.Extra[name] = append(u.Extra[name], value.String())
		}
	}
	return u
}

// errExempt says that no policy is asked about a resource.
var errExempt = errors.New("no policy is asked about it: what repairs policies, and reviews, are exempt")
