package loader_test

import (
	"strings"
	"testing"

	"weir.dev/weir/server/loader"
)

func TestCheckPolicyKind(t *testing.T) {
	tests := []struct{ apiVersion, kind, want string }{
		{"admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", ""},
		{"admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", ""},
		{"weir.dev/v1alpha1", "Policy", ""},
		{"weir.dev/v1alpha1", "Module", ""},
		{"kyverno.io/v1", "Policy", ""},
		{"v1", "ConfigMap", ""},
		{"", "", ""},
		{"admissionregistration.k8s.io/v1", "ValidatingAdmisionPolicy", `there is no kind "ValidatingAdmisionPolicy" in admissionregistration.k8s.io/v1`},
		{"admissionregistration.k8s.io/v1", "Policy", `there is no kind "Policy"`},
		{"weir.dev/v1alpha1", "Polcy", `there is no kind "Polcy" in weir.dev/v1alpha1`},
		{"admissionregistration.k8s.i/v1", "MutatingAdmissionPolicyBinding", "it is of admissionregistration.k8s.io/v1"},
	}
	for _, tc := range tests {
		t.Run(tc.apiVersion+" "+tc.kind, func(t *testing.T) {
			err := loader.CheckPolicyKind(tc.apiVersion, tc.kind)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
