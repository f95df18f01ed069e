package loader

import (
	"context"
	"errors"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
)

func TestModuleAccess(t *testing.T) {
	const plain = `{"spec":{"source":{"inline":"AA=="}}}`
	module := func(capability string) string {
		return `{"spec":{"capabilities":["` + capability + `"],"source":{"inline":"AA=="}}}`
	}
	tests := []struct {
		name     string
		may      []string // verb group/resource
		old, new string
		nobody   bool
		want     string
	}{
		{name: "nothing is granted", new: plain},
		{name: "who may read may grant", may: []string{"get apps/deployments", "list apps/deployments"}, new: module("lookup:deployments.apps")},
		{name: "who may not read may not grant", new: module("lookup:secrets"),
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to get secrets in all namespaces`},
		{name: "get alone is not enough", may: []string{"get /secrets"}, new: module("lookup:secrets"),
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to list secrets in all namespaces`},
		{name: "all needs all", may: []string{"get /configmaps", "list /configmaps"}, new: module("lookup:*"),
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to get * in all namespaces`},
		{name: "a group", new: module("lookup:*.apps"),
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to get *.apps in all namespaces`},
		{name: "authorize", new: module("authorize"),
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to create subjectaccessreviews.authorization.k8s.io in all namespaces`},
		{name: "who may ask may grant to ask", may: []string{"create authorization.k8s.io/subjectaccessreviews"}, new: module("authorize")},
		{name: "the server itself", nobody: true, new: module("lookup:secrets")},
		{name: "a grant is added", old: plain, new: module("lookup:secrets"),
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to get secrets in all namespaces`},
		{name: "labels of a module that has a grant", old: module("lookup:secrets"), new: `{"metadata":{"labels":{"a":"b"}},` + module("lookup:secrets")[1:]},
		{name: "the code of a module that has a grant", old: module("lookup:secrets"), new: `{"spec":{"capabilities":["lookup:secrets"],"source":{"inline":"BB=="}}}`,
			want: `spec.capabilities[0]: Forbidden: user eve may not grant it without permission to get secrets in all namespaces`},
		{name: "the code from a secret", new: `{"spec":{"source":{"secretRef":{"key":"k","name":"top","namespace":"vault"}}}}`,
			want: `spec.source.secretRef: Forbidden: user eve may not name it without permission to get the secret vault/top`},
		{name: "the code from a secret that one may read", may: []string{"get /secrets vault/top"}, new: `{"spec":{"source":{"secretRef":{"key":"k","name":"top","namespace":"vault"}}}}`},
		{name: "a login", new: `{"spec":{"source":{"oci":{"pullSecretRef":{"name":"top","namespace":"vault"}}}}}`,
			want: `spec.source.oci.pullSecretRef: Forbidden: user eve may not name it without permission to get the secret vault/top`},
		{name: "a public key", new: `{"spec":{"source":{"inline":"AA=="},"verify":{"publicKeyFrom":{"secretRef":{"key":"k","name":"top","namespace":"vault"}}}}}`,
			want: `spec.verify.publicKeyFrom.secretRef: Forbidden: user eve may not name it without permission to get the secret vault/top`},
		{name: "a grant is taken away", old: module("lookup:secrets"), new: plain},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			layer := ModuleAccess(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if !a.IsResourceRequest() || a.GetUser().GetName() != "eve" {
					return authorizer.DecisionDeny, "", errors.New("asked for something else")
				}
				what := a.GetVerb() + " " + a.GetAPIGroup() + "/" + a.GetResource()
				if a.GetName() != "" {
					what += " " + a.GetNamespace() + "/" + a.GetName()
				}
				if slices.Contains(tc.may, what) {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			}))
			ctx := t.Context()
			if !tc.nobody {
				ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "eve"})
			}
			obj := document.FromCanonical([]byte(tc.new))
			errs, err := layer.Validate(ctx, obj)
			if tc.old != "" {
				errs, err = layer.ValidateUpdate(ctx, obj, document.FromCanonical([]byte(tc.old)))
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
