package server

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestDecodeImpact(t *testing.T) {
	tests := []struct{ name, body, err string }{
		{"a question", `{"apiVersion":"weir.dev/v1alpha1","kind":"PolicyImpact","spec":{"objects":[{"any":{"thing":1}}],"limit":3}}`, ""},
		{"a member that there is not", `{"apiVersion":"weir.dev/v1alpha1","kind":"PolicyImpact","spec":{"objekts":[]}}`, `unknown field "spec.objekts"`},
		{"a member in other letters", `{"apiVersion":"weir.dev/v1alpha1","kind":"PolicyImpact","spec":{"Objects":[]}}`, `unknown field "spec.Objects"`},
		{"a member twice", `{"apiVersion":"weir.dev/v1alpha1","kind":"PolicyImpact","spec":{"limit":1,"limit":2}}`, `duplicate field "spec.limit"`},
		{"another kind", `{"apiVersion":"weir.dev/v1alpha1","kind":"Policy","spec":{}}`, `the body is Policy "weir.dev/v1alpha1"`},
		{"another version", `{"apiVersion":"weir.dev/v1","kind":"PolicyImpact","spec":{}}`, `want PolicyImpact "weir.dev/v1alpha1"`},
		{"neither", `{"spec":{}}`, "the body is"},
		{"no JSON", `apiVersion: weir.dev/v1alpha1`, "PolicyImpact: "},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			in, err := decodeImpact([]byte(tc.body))
			if tc.err == "" {
				if err != nil || len(in.Spec.Objects) != 1 || *in.Spec.Limit != 3 {
					t.Errorf("got %+v, %v", in, err)
				}
				return
			}
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
