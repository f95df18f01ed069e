package openapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/server/endpoints/discovery"
	"weir.dev/weir/server/rest"
)

// operation is one method of one path, before it is written in a version of OpenAPI.
type operation struct {
	method      string
	action      string
	id          string
	description string
	kind        kindOf
	// body and response are nil where there is none of a known schema.
	body, response *kindOf
	// bodyTypes of a patch.
	bodyTypes []string
	query     []parameter
	created   bool
	// refused says that the answer is 405.
	refused bool
}

// parameter is one parameter of the query.
type parameter struct {
	name, typ, description string
}

// path is one path and its operations.
type path struct {
	path string
	// parameters of the path, by name.
	parameters []string
	operations []operation
}

// pathsOf gives the paths of a version of a resource.
func pathsOf(r *rest.Resource, v *rest.Version, kind, list kindOf, defs definitions) []path {
	base := "/apis/" + r.Group + "/" + v.Name
	if r.Group == "" {
		base = "/api/" + v.Name
	}
	var parameters []string
	collection := base + "/" + r.Name
	scope := ""
	if r.Namespaced {
		parameters = []string{"namespace"}
		collection = base + "/namespaces/{namespace}/" + r.Name
		scope = "Namespaced"
	}
	verbs := discovery.Verbs(v.Storage)
	ids := identifier{group: r.Group, version: v.Name, scope: scope, kind: r.Kind}
	var paths []path
	add := func(p path) {
		if len(p.operations) > 0 {
			paths = append(paths, p)
		}
	}
	add(path{collection, parameters, collectionOperations(verbs, ids, kind, list)})
	if r.Namespaced && slices.Contains(verbs, "list") {
		all := ids
		all.scope, all.suffix = "", "ForAllNamespaces"
		add(path{base + "/" + r.Name, nil, []operation{listOperation(all, kind, list)}})
	}
	named := append(slices.Clone(parameters), "name")
	operations := objectOperations(verbs, ids, kind, patchTypes(v, true))
	if slices.Contains(verbs, "create") && !slices.Contains(verbs, "patch") {
		operations = append(operations, refusedPatch(ids, kind, patchTypes(v, true)))
	}
	add(path{collection + "/{name}", named, operations})
	for _, sub := range sortedSubresources(v) {
		subIDs := ids
		subIDs.suffix = title(sub.Name)
		subKind := defs.subKind(kind, sub)
		add(path{collection + "/{name}/" + sub.Name, named, objectOperations(discovery.Verbs(sub.Storage), subIDs, subKind, patchTypes(v, subKind == kind))})
	}
	return paths
}

func collectionOperations(verbs []string, ids identifier, kind, list kindOf) []operation {
	var ops []operation
	for _, verb := range verbs {
		switch verb {
		case "list":
			ops = append(ops, listOperation(ids, kind, list))
		case "create":
			ops = append(ops, operation{
				method: "post", action: "post", id: ids.of("create"), description: "create a " + kind.Kind,
				kind: kind, body: &kind, response: &kind, query: writeParameters(), created: true,
			})
		case "deletecollection":
			ops = append(ops, operation{
				method: "delete", action: "deletecollection", id: ids.of("deleteCollection"), description: "delete collection of " + kind.Kind,
				kind: kind, query: append(listParameters(), deleteParameters()...),
			})
		}
	}
	return ops
}

func listOperation(ids identifier, kind, list kindOf) operation {
	return operation{
		method: "get", action: "list", id: ids.of("list"), description: "list or watch objects of kind " + kind.Kind,
		kind: kind, response: &list, query: listParameters(),
	}
}

func objectOperations(verbs []string, ids identifier, kind kindOf, patchTypes []string) []operation {
	var ops []operation
	for _, verb := range verbs {
		switch verb {
		case "get":
			ops = append(ops, operation{
				method: "get", action: "get", id: ids.of("read"), description: "read the specified " + kind.Kind,
				kind: kind, response: &kind,
			})
		case "create": // of a subresource
			if ids.suffix != "" {
				ops = append(ops, operation{
					method: "post", action: "post", id: ids.of("create"), description: "create " + kind.Kind,
					kind: kind, body: &kind, response: &kind, query: writeParameters(), created: true,
				})
			}
		case "update":
			ops = append(ops, operation{
				method: "put", action: "put", id: ids.of("replace"), description: "replace the specified " + kind.Kind,
				kind: kind, body: &kind, response: &kind, query: writeParameters(),
			})
		case "patch":
			ops = append(ops, operation{
				method: "patch", action: "patch", id: ids.of("patch"), description: "partially update the specified " + kind.Kind,
				kind: kind, response: &kind, bodyTypes: patchTypes,
				query: append(writeParameters(), parameter{"force", "boolean", "Force is going to \"force\" Apply requests. It means user will re-acquire conflicting fields owned by other people."}),
			})
		case "delete":
			ops = append(ops, operation{
				method: "delete", action: "delete", id: ids.of("delete"), description: "delete a " + kind.Kind,
				kind: kind, query: deleteParameters(),
			})
		}
	}
	return ops
}

// refusedPatch is the patch of what is created and not stored. kubectl looks at the patch of a kind for whether the server
// validates fields; where it finds none, as in kube-apiserver, it wants to list the CustomResourceDefinitions, which few
// users may.
func refusedPatch(ids identifier, kind kindOf, patchTypes []string) operation {
	return operation{
		method: "patch", action: "patch", id: ids.of("patch"), kind: kind, bodyTypes: patchTypes, query: writeParameters(), refused: true,
		description: "not allowed: a " + kind.Kind + " is answered and not stored; clients look here for the parameters of a write",
	}
}

// patchTypes are those of a version, or of a subresource; ownKind tells whether that has the kind of the resource.
func patchTypes(v *rest.Version, ownKind bool) []string {
	all := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if v.PatchMeta != nil && ownKind {
		all = append(all, string(types.StrategicMergePatchType))
	}
	return append(all, string(types.ApplyYAMLPatchType))
}

func writeParameters() []parameter {
	return []parameter{
		{"dryRun", "string", "When present, indicates that modifications should not be persisted. An invalid or unrecognized dryRun directive will result in an error response and no further processing of the request. Valid values are: - All: all dry run stages will be processed"},
		{"fieldManager", "string", "fieldManager is a name associated with the actor or entity that is making these changes."},
		{"fieldValidation", "string", "fieldValidation instructs the server on how to handle objects in the request (POST/PUT/PATCH) containing unknown or duplicate fields. Valid values are Ignore, Warn and Strict."},
	}
}

func deleteParameters() []parameter {
	return []parameter{
		{"dryRun", "string", "When present, indicates that modifications should not be persisted."},
		{"gracePeriodSeconds", "integer", "The duration in seconds before the object should be deleted."},
		{"propagationPolicy", "string", "Whether and how garbage collection will be performed. Orphan, Background or Foreground."},
	}
}

func listParameters() []parameter {
	return []parameter{
		{"allowWatchBookmarks", "boolean", "allowWatchBookmarks requests watch events with type \"BOOKMARK\"."},
		{"continue", "string", "The continue option should be set when retrieving more results from the server."},
		{"fieldSelector", "string", "A selector to restrict the list of returned objects by their fields."},
		{"labelSelector", "string", "A selector to restrict the list of returned objects by their labels."},
		{"limit", "integer", "limit is a maximum number of responses to return for a list call."},
		{"resourceVersion", "string", "resourceVersion sets a constraint on what resource versions a request may be served from."},
		{"resourceVersionMatch", "string", "resourceVersionMatch determines how resourceVersion is applied to list calls."},
		{"sendInitialEvents", "boolean", "sendInitialEvents=true may be set together with watch=true."},
		{"timeoutSeconds", "integer", "Timeout for the list/watch call."},
		{"watch", "boolean", "Watch for changes to the described resources and return them as a stream of add, update, and remove notifications."},
	}
}

func pathParameterText(name string) string {
	if name == "namespace" {
		return "object name and auth scope, such as for teams and projects"
	}
	return fmt.Sprintf("%s of the object", name)
}

func sortedSubresources(v *rest.Version) []*rest.Subresource {
	var subs []*rest.Subresource
	for _, sub := range v.Subresources {
		if sub.Storage != nil {
			subs = append(subs, sub)
		}
	}
	slices.SortFunc(subs, func(a, b *rest.Subresource) int { return strings.Compare(a.Name, b.Name) })
	return subs
}

// identifier makes operation ids as upstream's, e.g. readAppsV1NamespacedDeploymentStatus.
type identifier struct {
	group, version, scope, kind, suffix string
}

func (i identifier) of(verb string) string {
	group := "Core"
	if i.group != "" {
		var b strings.Builder
		for _, part := range strings.Split(strings.TrimSuffix(i.group, ".k8s.io"), ".") {
			b.WriteString(title(part))
		}
		group = b.String()
	}
	return verb + group + title(i.version) + i.scope + i.kind + i.suffix
}

func title(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// tag groups operations, e.g. apps_v1.
func tag(gv schema.GroupVersion) string {
	group := "core"
	if gv.Group != "" {
		group, _, _ = strings.Cut(gv.Group, ".")
	}
	return group + "_" + gv.Version
}
