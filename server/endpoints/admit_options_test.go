package endpoints

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
)

// TestOptionsDocument compares what is put together by hand with encoding/json.
func TestOptionsDocument(t *testing.T) {
	create := metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}
	tests := []struct {
		name    string
		options any
	}{
		{"nothing", &metav1.CreateOptions{TypeMeta: create}},
		{"a manager", &metav1.CreateOptions{TypeMeta: create, FieldManager: "kubectl <edit>"}},
		{"a manager that is escaped", &metav1.CreateOptions{TypeMeta: create, FieldManager: "a\"b\\é"}},
		{"all", &metav1.UpdateOptions{TypeMeta: create, FieldManager: "m", FieldValidation: "Strict"}},
		{"dry run", &metav1.UpdateOptions{TypeMeta: create, DryRun: []string{"All"}, FieldValidation: "Strict"}},
		{"without a kind", &metav1.UpdateOptions{}},
		{"a delete", &metav1.DeleteOptions{TypeMeta: create, GracePeriodSeconds: new(int64)}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			raw, err := json.Marshal(tc.options)
			if err != nil {
				t.Fatal(err)
			}
			want, err := document.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			got, err := optionsDocument(tc.options)
			if err != nil || got.Err() != nil {
				t.Fatal(err, got.Err())
			}
			if !got.Equal(want) {
				t.Errorf("got %s, want %s", got.Bytes(), want.Bytes())
			}
		})
	}
}
