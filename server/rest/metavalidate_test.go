package rest

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestPlainMeta holds the fast path against apimachinery: what it calls plain must be valid. The
// wanted column says of each case whether it is to be plain, so that the path is taken.
func TestPlainMeta(t *testing.T) {
	long := strings.Repeat("a", 64)
	tests := []struct {
		name, meta string
		plain      bool
	}{
		{"usual", `{"name":"a","namespace":"default","uid":"u","resourceVersion":"1","generation":1,"creationTimestamp":"2030-01-02T03:04:05Z"}`, true},
		{"labels", `{"name":"a","namespace":"d","labels":{"app.kubernetes.io/name":"x_Y.z","k":""}}`, true},
		{"annotations", `{"name":"a","namespace":"d","annotations":{"example.com/a":"any text, {}"}}`, true},
		{"finalizers", `{"name":"a","namespace":"d","finalizers":["example.com/f"]}`, true},
		{"managedFields", `{"name":"a","namespace":"d","managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{},"manager":"m","operation":"Update","time":"2030-01-02T03:04:05Z"}]}`, true},
		{"owner", `{"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"apps/v1","controller":true,"kind":"ReplicaSet","name":"r","uid":"u"}]}`, true},
		{"core owner", `{"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"r","uid":"u"}]}`, true},
		{"no name", `{"namespace":"d"}`, false},
		{"empty name", `{"name":"","namespace":"d"}`, false},
		{"bad name", `{"name":"A","namespace":"d"}`, false},
		{"no namespace", `{"name":"a"}`, false},
		{"namespace with dots", `{"name":"a","namespace":"a.b"}`, false},
		{"namespace too long", `{"name":"a","namespace":"` + long + `"}`, false},
		{"namespace in capitals", `{"name":"a","namespace":"A"}`, false},
		{"namespace ends in hyphen", `{"name":"a","namespace":"a-"}`, false},
		{"negative generation", `{"name":"a","namespace":"d","generation":-1}`, false},
		{"text as generation", `{"name":"a","namespace":"d","generation":"1"}`, false},
		{"label key", `{"name":"a","namespace":"d","labels":{"-k":"v"}}`, false},
		{"label key prefix", `{"name":"a","namespace":"d","labels":{"EXAMPLE.com/k":"v"}}`, false},
		{"label key prefix dots", `{"name":"a","namespace":"d","labels":{"a..b/k":"v"}}`, false},
		{"label key prefix hyphen", `{"name":"a","namespace":"d","labels":{"a-.b/k":"v"}}`, false},
		{"label key two slashes", `{"name":"a","namespace":"d","labels":{"a/b/c":"v"}}`, false},
		{"label key empty name", `{"name":"a","namespace":"d","labels":{"a/":"v"}}`, false},
		{"label key empty prefix", `{"name":"a","namespace":"d","labels":{"/a":"v"}}`, false},
		{"label value", `{"name":"a","namespace":"d","labels":{"k":"a b"}}`, false},
		{"label value too long", `{"name":"a","namespace":"d","labels":{"k":"` + long + `"}}`, false},
		{"label number", `{"name":"a","namespace":"d","labels":{"k":1}}`, false},
		{"annotation key", `{"name":"a","namespace":"d","annotations":{"a b":""}}`, false},
		{"annotations too large", `{"name":"a","namespace":"d","annotations":{"k":"` + strings.Repeat("x", validation.TotalAnnotationSizeLimitB) + `"}}`, false},
		{"finalizer", `{"name":"a","namespace":"d","finalizers":["a b"]}`, false},
		{"both gc finalizers", `{"name":"a","namespace":"d","finalizers":["orphan","foregroundDeletion"]}`, false},
		{"managedFields operation", `{"name":"a","namespace":"d","managedFields":[{"operation":"Guess"}]}`, false},
		{"managedFields without operation", `{"name":"a","namespace":"d","managedFields":[{}]}`, false},
		{"managedFields type", `{"name":"a","namespace":"d","managedFields":[{"fieldsType":"V2","operation":"Apply"}]}`, false},
		{"owner without uid", `{"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"r","uid":""}]}`, false},
		{"owner event", `{"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"v1","kind":"Event","name":"r","uid":"u"}]}`, false},
		{"owner version", `{"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"a/","kind":"Pod","name":"r","uid":"u"}]}`, false},
		{"owner versions", `{"name":"a","namespace":"d","ownerReferences":[{"apiVersion":"a/b/c","kind":"Pod","name":"r","uid":"u"}]}`, false},
		{"time", `{"name":"a","namespace":"d","creationTimestamp":"yesterday"}`, false},
		{"time like a time", `{"name":"a","namespace":"d","creationTimestamp":"2030-99-02T03:04:05Z"}`, false},
	}
	g := generic(t, GenericConfig{Namespaced: true})
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			obj := parse(t, `{"metadata":`+tc.meta+`}`)
			plain := plainMeta(MetaOf(obj), g)
			if plain != tc.plain {
				t.Errorf("plain %v", plain)
			}
			om, err := decodeMeta(MetaOf(obj))
			valid := err == nil && len(validation.ValidateObjectMeta(om, true, g.ValidateName, field.NewPath("metadata"))) == 0
			if plain && !valid {
				t.Errorf("plain, but not valid: %v", err)
			}
			if !tc.plain && valid {
				t.Errorf("valid, so the case shows nothing")
			}
		})
	}
}

// FuzzPlainQualified holds plainQualified against apimachinery.
func FuzzPlainQualified(f *testing.F) {
	for _, s := range []string{"a", "a/b", "a.b/c", "A/b", "-", "a-.b/c", "a..b/c", "a/b/c", "", "/a", "a/", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !plainQualified(s) {
			return
		}
		om, err := decodeMeta(MetaOf(parse(t, fmt.Sprintf(`{"metadata":{"name":"a","labels":{%q:""},"finalizers":[%q]}}`, s, s))))
		if err != nil {
			t.Skip(err)
		}
		if errs := validation.ValidateObjectMeta(om, false, dnsSubdomain, field.NewPath("metadata")); len(errs) > 0 {
			t.Errorf("%q is plain, but %v", s, errs)
		}
	})
}
