package semantics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// scenario is one thing that a client can observe, shown by a few requests. Each has a namespace
// and a group of its own.
//
// Strings may name variables: $ns, $group, $core (/api/v1/namespaces/$ns), $apps, $crd (the path of the
// scenario's definition), $things (its objects in v1, in $ns), and what a step saved.
type scenario struct {
	Name string `json:"name"`
	// CRD is the definition that is there before the first step; nil: none.
	CRD   *definition `json:"crd,omitempty"`
	Steps []step      `json:"steps"`
}

// definition is a CustomResourceDefinition of things.$group, shortened.
type definition struct {
	// Schema of version v1: openAPIV3Schema, with type object.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Spec has members of v1's entry in spec.versions, such as subresources.
	Version map[string]any `json:"version,omitempty"`
	// Versions replace v1, complete as in spec.versions.
	Versions []any  `json:"versions,omitempty"`
	Scope    string `json:"scope,omitempty"`
	// Names are added to plural, singular and kind.
	Names map[string]any `json:"names,omitempty"`
	// Code of the create; 0: 201.
	Code int `json:"code,omitempty"`
	// Message has parts of the message of a refusal.
	Message []string `json:"message,omitempty"`
}

// step is one request and what its answer must have, or a look at a watch.
type step struct {
	// Do is the method and the path with its query. A method of apply, merge, json or strategic is a PATCH.
	Do      string            `json:"do,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is sent as it is when it is a string, else as JSON.
	Body json.RawMessage `json:"body,omitempty"`

	// Code of the answer; 0: 200.
	Code int `json:"code,omitempty"`
	// Has is contained in the answer: members of objects may be missing here, elements of lists not.
	Has json.RawMessage `json:"has,omitempty"`
	// Lacks are paths that are not in the answer.
	Lacks []string `json:"lacks,omitempty"`
	// Raw are parts of the body, byte for byte; Never are none.
	Raw   []string `json:"raw,omitempty"`
	Never []string `json:"never,omitempty"`
	// Message are parts of a Status's message.
	Message []string `json:"message,omitempty"`
	// Causes of a Status: all of them, in any order; each member is a part of the real one.
	Causes []cause `json:"causes,omitempty"`
	// Warnings are parts of the Warning headers, all of them in their order; null is not compared.
	Warnings []string `json:"warnings,omitempty"`
	Quiet    bool     `json:"quiet,omitempty"` // no Warning header
	// Header values, exact.
	Header map[string]string `json:"header,omitempty"`
	// Save values under names of variables.
	Save map[string]string `json:"save,omitempty"`

	// Watch starts a watch by that name with Do's path.
	Watch string `json:"watch,omitempty"`
	// Event is the watch whose next event, bookmarks aside, has Type and Has.
	Event string `json:"event,omitempty"`
	Type  string `json:"type,omitempty"`
	// Ends is the watch that must end without a further event.
	Ends string `json:"ends,omitempty"`
	// Until repeats a GET until it answers as said, for what controllers do.
	Until bool `json:"until,omitempty"`
}

type cause struct {
	Field   string `json:"field,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func loadScenarios(t *testing.T) map[string][]scenario {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	out := map[string][]scenario{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []scenario
		if err := yaml.UnmarshalStrict(text, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = list
	}
	return out
}

// object is the whole CustomResourceDefinition.
func (d *definition) object(group string) map[string]any {
	names := map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"}
	for name, v := range d.Names {
		names[name] = v
	}
	versions := d.Versions
	if versions == nil {
		schema := d.Schema
		if schema == nil {
			schema = json.RawMessage(`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
		}
		v := map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}
		for name, member := range d.Version {
			v[name] = member
		}
		versions = []any{v}
	}
	scope := d.Scope
	if scope == "" {
		scope = "Namespaced"
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": fmt.Sprintf("%s.%s", names["plural"], group)},
		"spec":     map[string]any{"group": group, "scope": scope, "names": names, "versions": versions},
	}
}
