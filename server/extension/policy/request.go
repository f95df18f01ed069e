package policy

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
)

// newRequest returns the variable request of an expression: an AdmissionRequest of admission.k8s.io/v1 without its uid and
// objects, as upstream gives it.
func newRequest(a *admission.Attributes, as target) (*document.Document, error) {
	user := map[string]any{}
	if u := a.User; u != nil {
		put(user, "username", u.GetName())
		put(user, "uid", u.GetUID())
		if groups := u.GetGroups(); len(groups) > 0 {
			user["groups"] = groups
		}
		if from := u.GetExtra(); len(from) > 0 {
			extra := make(map[string]any, len(from))
			for key, values := range from {
				extra[key] = values
			}
			user["extra"] = extra
		}
	}
	out := map[string]any{
		"uid":             "",
		"kind":            kindMap(as.kind),
		"resource":        resourceMap(as.resource),
		"requestKind":     kindMap(a.Kind),
		"requestResource": resourceMap(a.Resource),
		"operation":       string(a.Operation),
		"userInfo":        user,
		"dryRun":          a.DryRun,
	}
	put(out, "name", a.Name)
	put(out, "namespace", a.Namespace)
	put(out, "subResource", a.Subresource)
	put(out, "requestSubResource", a.Subresource)
	if a.Options != nil {
		out["options"] = a.Options
	}
	return document.FromValue(out)
}

// put leaves out what is empty, as the JSON form of an AdmissionRequest does.
func put(m map[string]any, name, value string) {
	if value != "" {
		m[name] = value
	}
}

func kindMap(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceMap(r schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}
