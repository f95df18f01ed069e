package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	gvkExtension = "x-kubernetes-group-version-kind"
	refPrefix    = "#/components/schemas/"
)

// writeSchemas splits the definitions by API package, adds their group, version
// and kind, and replaces the JSON files of out.
func writeSchemas(out string, dump map[string]any) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := checkRefs(dump, dump); err != nil {
		return err
	}
	stale, err := filepath.Glob(filepath.Join(out, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range stale {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, s := range sources {
		names := slices.Sorted(maps.Keys(dump))
		names = slices.DeleteFunc(names, func(name string) bool { return pkgOf(name) != s.model })
		if len(names) == 0 {
			return fmt.Errorf("package %s: no definitions", s.pkg)
		}
		var buf bytes.Buffer
		for i, name := range names {
			schema, ok := dump[name].(map[string]any)
			if !ok {
				return fmt.Errorf("definition %s: not an object", name)
			}
			addGroupVersionKinds(schema, s, name)
			addStatus(schema, name)
			if err := appendLine(&buf, i == 0, name, schema); err != nil {
				return err
			}
			delete(dump, name)
		}
		buf.WriteString("\n}\n")
		if err := os.WriteFile(filepath.Join(out, s.model+".json"), buf.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if len(dump) > 0 {
		return fmt.Errorf("definitions outside the listed packages: %v", slices.Sorted(maps.Keys(dump)))
	}
	return nil
}

// checkRefs fails on a $ref to what no listed package defines.
func checkRefs(dump map[string]any, value any) error {
	switch v := value.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, refPrefix)
			if _, ok := dump[name]; !ok {
				return fmt.Errorf("definition %s is referred to but not there: list its package", name)
			}
		}
		for _, child := range v {
			if err := checkRefs(dump, child); err != nil {
				return err
			}
		}
	case []any:
		for _, child := range v {
			if err := checkRefs(dump, child); err != nil {
				return err
			}
		}
	}
	return nil
}

func pkgOf(name string) string { return name[:strings.LastIndexByte(name, '.')] }

// appendLine writes one definition as a line of the file's object.
func appendLine(buf *bytes.Buffer, first bool, name string, schema map[string]any) error {
	if first {
		buf.WriteString("{\n")
	} else {
		buf.WriteString(",\n")
	}
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	buf.Write(key)
	buf.WriteByte(':')
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(schema); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // Encode's line feed
	return nil
}

// addStatus gives MutatingAdmissionPolicy the status that ValidatingAdmissionPolicy has. Upstream's has none, so that
// nobody can see whether one is in force and fits what it changes; its clients pass over fields that they do not know.
func addStatus(schema map[string]any, name string) {
	of, ok := strings.CutSuffix(name, ".MutatingAdmissionPolicy")
	props, isObject := schema["properties"].(map[string]any)
	if !ok || !isObject || !strings.HasPrefix(name, "io.k8s.api.admissionregistration.v1") || props["spec"] == nil {
		return
	}
	if _, there := props["status"]; there {
		return
	}
	props["status"] = map[string]any{
		"allOf":       []any{map[string]any{"$ref": refPrefix + of + ".ValidatingAdmissionPolicyStatus"}},
		"default":     map[string]any{},
		"description": "status of the MutatingAdmissionPolicy: whether it is in force, warnings that its expressions may not fit what they change, and what it did. Weir's own; populated by the system, read-only.",
	}
}

// addGroupVersionKinds marks a kind with its group, version and kind, as
// kubectl and code generators expect. A kind is a type that embeds TypeMeta,
// known by that type's descriptions. Of apimachinery's kinds, those that any
// group serves carry every group version.
func addGroupVersionKinds(schema map[string]any, s source, name string) {
	props, _ := schema["properties"].(map[string]any)
	kindProp, _ := props["kind"].(map[string]any)
	description, _ := kindProp["description"].(string)
	if !strings.HasPrefix(description, "Kind is a string value representing the REST resource") && !strings.HasSuffix(name, ".meta.v1.WatchEvent") {
		return
	}
	kind := name[strings.LastIndexByte(name, '.')+1:]
	gvk := func(group, version string) map[string]any {
		return map[string]any{"group": group, "version": version, "kind": kind}
	}
	if s.group != "-" {
		schema[gvkExtension] = []any{gvk(s.group, s.model[strings.LastIndexByte(s.model, '.')+1:])}
		return
	}
	switch kind {
	case "DeleteOptions", "WatchEvent":
		var all []any
		for _, other := range sources {
			if other.group != "-" {
				all = append(all, gvk(other.group, other.model[strings.LastIndexByte(other.model, '.')+1:]))
			}
		}
		schema[gvkExtension] = all
	case "Status", "APIGroup", "APIGroupList", "APIResourceList", "APIVersions":
		schema[gvkExtension] = []any{gvk("", "v1")}
	}
}
