package loader

import (
	"fmt"
	"strings"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// unknownDefaults warns of defaults of a Strategy whose fields the kind does not have, in any of its versions. It is no
// error, since the schema may have them later. What a patch adds is known only when it is run.
func unknownDefaults(served []*rest.Resource, strategy *document.Document) []string {
	group, name := strategy.Get("spec", "group").String(), strategy.Get("spec", "resource").String()
	var target *rest.Resource
	for _, r := range served {
		if r.Group == group && r.Name == name {
			target = r
		}
	}
	if target == nil {
		return nil
	}
	var warnings []string
	for i, layer := range strategy.Get("spec", "layers").Elements() {
		for j, rule := range layer.Get("cel", "defaults").Elements() {
			if field := unknownField(target, rule.Get("path").String()); field != "" {
				warnings = append(warnings, fmt.Sprintf("spec.layers[%d].cel.defaults[%d].path: the schema of %s has no field %s: what the rule writes there is not checked, and what clients write is dropped",
					i, j, target.GroupResource(), field))
			}
		}
	}
	return warnings
}

// unknownField returns the part of a path that no version of a resource has, "" if one has all of it.
func unknownField(r *rest.Resource, text string) string {
	path, err := document.ParsePath(text)
	if err != nil {
		return "" // the guard says so
	}
	field := ""
	for _, v := range r.Versions {
		if v.Schema == nil {
			return ""
		}
		obj, err := document.FromValue(sample(path.String()))
		if err != nil {
			return ""
		}
		_, unknown, err := v.Schema.Prune(obj)
		if err != nil || len(unknown) == 0 {
			return ""
		}
		field = strings.ReplaceAll(unknown[0], "[0]", "[*]")
	}
	return field
}

// sample is a value that has something at a path in the form that document.Path gives; lists have one element.
func sample(path string) any {
	switch {
	case path == "":
		return map[string]any{}
	case strings.HasPrefix(path, "['"):
		var name strings.Builder
		i := len("['")
		for ; path[i] != '\''; i++ {
			if path[i] == '\\' {
				i++
			}
			name.WriteByte(path[i])
		}
		return map[string]any{name.String(): sample(path[i+len("']"):])}
	case path[0] == '[':
		return []any{sample(path[strings.IndexByte(path, ']')+1:])}
	}
	path = strings.TrimPrefix(path, ".")
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		end = len(path)
	}
	return map[string]any{path[:end]: sample(path[end:])}
}
