package loader

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// ServedWarnings returns the layer that warns of a Module, policy or Strategy that names what catalog does not serve: a
// misspelt capability grants nothing, no request can be judged by params of a kind that is not there, and a default of a
// field that there is not is of no use. It is a warning and no error, since a CustomResourceDefinition may come later.
func ServedWarnings(catalog func() rest.Catalog) rest.Layer { return servedWarnings{catalog: catalog} }

type servedWarnings struct {
	rest.NoHooks
	catalog func() rest.Catalog
}

// Name implements rest.Layer.
func (servedWarnings) Name() string { return "served-warnings" }

// Implements implements rest.Layer.
func (servedWarnings) Implements() rest.HookSet {
	return rest.HookSet(rest.HookWarningsOnCreate | rest.HookWarningsOnUpdate)
}

// WarningsOnCreate implements rest.Hooks.
func (s servedWarnings) WarningsOnCreate(_ context.Context, obj *document.Document) ([]string, error) {
	served := s.catalog().Resources()
	warnings := unknownDefaults(served, obj)
	if kind := obj.Get("spec", "paramKind"); kind.Exists() {
		gvk := schema.FromAPIVersionAndKind(kind.Get("apiVersion").String(), kind.Get("kind").String())
		if gvk.Kind != "" && !servesKind(served, gvk) {
			warnings = append(warnings, "spec.paramKind: "+notServed(gvk)+": bindings with a paramRef can judge no request")
		}
	}
	for i, capability := range obj.Get("spec", "capabilities").Elements() {
		group, resource, ok := abi.ParseLookup(capability.String())
		if !ok || resource == "*" {
			continue
		}
		if meant, ok := servesResource(served, schema.GroupResource{Group: group, Resource: resource}); !ok {
			text := fmt.Sprintf("spec.capabilities[%d]: %s: no such resource is served", i, capability.String())
			if meant != "" {
				text += "; did you mean " + meant
			}
			warnings = append(warnings, text)
		}
	}
	return warnings, nil
}

// WarningsOnUpdate implements rest.Hooks.
func (s servedWarnings) WarningsOnUpdate(ctx context.Context, obj, _ *document.Document) ([]string, error) {
	return s.WarningsOnCreate(ctx, obj)
}

func notServed(kind schema.GroupVersionKind) string {
	return fmt.Sprintf("no kind %s of %s is served", kind.Kind, kind.GroupVersion())
}

func servesKind(served []*rest.Resource, kind schema.GroupVersionKind) bool {
	for _, r := range served {
		if r.Group == kind.Group && r.Kind == kind.Kind && r.Version(kind.Version) != nil {
			return true
		}
	}
	return false
}

// servesResource reports whether a resource is served; meant is the capability of one that has the name as its kind, as its
// singular or in another group.
func servesResource(served []*rest.Resource, gr schema.GroupResource) (meant string, ok bool) {
	for _, r := range served {
		if r.GroupResource() == gr {
			return "", true
		}
		same := r.Name == gr.Resource || r.Group == gr.Group && strings.EqualFold(r.Kind, gr.Resource)
		if same && meant == "" {
			meant = abi.LookupCapability(r.Group, r.Name)
		}
	}
	return meant, false
}

// paramKindMissingLocked says that the kind of the params of a policy is not served; "": it is, or there is none.
func (l *Loader) paramKindMissingLocked(from *admissionregistrationv1.ParamKind) string {
	if from == nil {
		return ""
	}
	kind := schema.FromAPIVersionAndKind(from.APIVersion, from.Kind)
	for _, e := range l.entries {
		if servesKind([]*rest.Resource{e.resource}, kind) {
			return ""
		}
	}
	return "its failure policy decides where a binding has a paramRef: " + notServed(kind)
}

// noParamKind has the condition of what is in force say what is missing, "": nothing.
func noParamKind(ready *metav1.Condition, missing string) {
	if missing != "" && ready.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonParamKindNotFound, missing
	}
}
