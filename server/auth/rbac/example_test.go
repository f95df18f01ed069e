package rbac_test

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"weir.dev/weir/server/auth/rbac"
)

func ExampleAllows() {
	rule := &rbacv1.PolicyRule{Verbs: []string{"get", "update"}, APIGroups: []string{"apps"}, Resources: []string{"*/scale"}}
	for _, resource := range []string{"deployments", "scale"} {
		a := authorizer.AttributesRecord{ResourceRequest: true, Verb: "get", APIGroup: "apps", Resource: resource}
		fmt.Println(resource, rbac.Allows(rule, a))
		a.Subresource = "scale"
		fmt.Println(resource+"/scale", rbac.Allows(rule, a))
	}
	// Output:
	// deployments false
	// deployments/scale true
	// scale false
	// scale/scale true
}
