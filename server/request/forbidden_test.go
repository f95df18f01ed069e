package request_test

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/request"
)

func TestNewForbidden(t *testing.T) {
	joe := &user.DefaultInfo{Name: "joe"}
	tests := []struct {
		name, reason string
		attributes   authorizer.AttributesRecord
		want         string
	}{
		{"a path", "", authorizer.AttributesRecord{User: joe, Verb: "get", Path: "/metrics"},
			`forbidden: User "joe" cannot get path "/metrics"`},
		{"of the cluster", "no rule", authorizer.AttributesRecord{User: joe, Verb: "list", APIGroup: "apps", Resource: "deployments", ResourceRequest: true},
			`deployments.apps is forbidden: User "joe" cannot list resource "deployments" in API group "apps" at the cluster scope: no rule`},
		{"a subresource in a namespace", "", authorizer.AttributesRecord{User: joe, Verb: "create", APIGroup: "apps", Resource: "deployments", Subresource: "scale", Namespace: "ns", Name: "web", ResourceRequest: true},
			`deployments.apps "web" is forbidden: User "joe" cannot create resource "deployments/scale" in API group "apps" in the namespace "ns"`},
		{"nobody", "", authorizer.AttributesRecord{Verb: "get", Path: "/"}, `forbidden: User "" cannot get path "/"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := request.NewForbidden(tc.attributes, tc.reason).Error(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
