package openapi

import (
	"encoding/json"
	"testing"
)

func TestSchemaV2(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"reference", `{"$ref":"#/components/schemas/a.B"}`, `{"$ref":"#/definitions/a.B"}`},
		{"wrapped reference", `{"allOf":[{"$ref":"#/components/schemas/a.B"}],"default":{},"description":"d"}`, `{"$ref":"#/definitions/a.B","default":{},"description":"d"}`},
		{"what v2 cannot say", `{"type":"string","oneOf":[{}],"anyOf":[{}],"not":{},"x-kubernetes-list-type":"set"}`, `{"type":"string","x-kubernetes-list-type":"set"}`},
		{"nullable", `{"type":"object","nullable":true}`, `{}`},
		{"nested", `{"properties":{"nullable":{"type":"array","items":{"not":{},"type":"string"}}},"additionalProperties":{"nullable":true,"type":"string"}}`, `{"additionalProperties":{},"properties":{"nullable":{"items":{"type":"string"},"type":"array"}}}`},
		{"boolean", `{"additionalProperties":true}`, `{"additionalProperties":true}`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var in map[string]any
			if err := json.Unmarshal([]byte(tc.in), &in); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(schemaV2(in))
			if err != nil || string(got) != tc.want {
				t.Errorf("%s, want %s: %v", got, tc.want, err)
			}
		})
	}
}
