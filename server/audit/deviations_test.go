package audit_test

import (
	"maps"
	"slices"
	"strings"
)

// anotherStatus are the steps that are answered with another text here, for reasons that have nothing to do with audit; and
// one with another code: a resourceVersion that is none is the client's fault.
var anotherStatus = []string{
	"04 create of what is no JSON", "15 watch of a resourceVersion that is none", "23 patch that is no JSON",
	"24 patch of an unknown type", "41 who may not be another", "47 a resource that is none", "48 a group that is none",
}

// deviate makes the same of what differs from kube-apiserver with intent, in its events and in these:
//
//   - The object of a create or update has the namespace of the path, which policies see too.
//   - The objects of a list have their kinds.
//   - DeleteOptions are of meta.k8s.io/v1, and not of a version that is upstream's own matter.
//   - A slow request is not annotated with what took how long (apiserver.latency.k8s.io/…): nothing measures it.
//   - Impersonation is not constrained (KEP-5284), so that no constraint is told.
//   - The apply of no YAML has an event of its end. Upstream's has a request object that is no JSON, and is lost.
//   - An answer about a Secret is recorded without its texts below the level Request (TestSecretStatus; no step has one).
//   - Policies are judged in the order of their names: see sorted.
func deviate(step string, e event) {
	if sent, ok := e["requestObject"].(map[string]any); ok {
		if meta, ok := sent["metadata"].(map[string]any); ok && meta["namespace"] == "shop" {
			delete(meta, "namespace")
		}
		if sent["kind"] == "DeleteOptions" {
			delete(sent, "apiVersion")
		}
	}
	if list, ok := e["responseObject"].(map[string]any); ok {
		items, _ := list["items"].([]any)
		for _, item := range items {
			if item, ok := item.(map[string]any); ok && list["kind"] != "PartialObjectMetadataList" {
				delete(item, "kind")
				delete(item, "apiVersion")
			}
		}
	}
	if annotations, ok := e["annotations"].(map[string]any); ok {
		maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "apiserver.latency.k8s.io/") })
	}
	if meta, ok := e["authenticationMetadata"].(map[string]any); ok && len(meta) == 1 && meta["impersonationConstraint"] != nil {
		delete(e, "authenticationMetadata")
	}
	if slices.Contains(anotherStatus, step) {
		for _, of := range []string{"responseStatus", "responseObject"} {
			if status, ok := e[of].(map[string]any); ok && status["code"] != nil {
				maps.DeleteFunc(status, func(field string, _ any) bool { return field != "metadata" })
			}
		}
	}
}
