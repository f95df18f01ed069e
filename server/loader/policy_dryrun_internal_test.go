package loader

import (
	"strings"
	"testing"

	"weir.dev/weir/server/apis/v1alpha1"
)

// What would be refused is told of first, what nothing would become of last, and what to do where a dry run cannot count.
func TestImpactWarnings(t *testing.T) {
	status := &v1alpha1.PolicyImpactStatus{
		Reason: "the time is up",
		Resources: []v1alpha1.PolicyImpactResource{
			{Resource: "daemonsets.apps", Objects: 3}, {Resource: "secrets", NotCounted: "no permission to list secrets"},
			{Resource: "pods", Objects: 9, Changed: 2}, {Resource: "configmaps", Objects: 4, Denied: 1}, {Resource: "deployments.apps", Objects: 5, Failed: 2},
		},
		Notes: []string{`binding "b" names the Policy "p", which there is not: ` + nothingCounted},
	}
	got := strings.Join(impactWarnings(status, []*v1alpha1.PolicyImpactFinding{{Resource: "configmaps", Namespace: "a", Name: "b", Message: "no"}}), "\n")
	want := `impact: would fail to judge 2 of 5 deployments.apps that were looked at, not all: the time is up
impact: would deny 1 of 4 configmaps: a/b: no
impact: would change 2 of 9 pods
impact: not counted: no permission to list secrets
impact: would deny none of 3 daemonsets.apps
impact: binding "b" names the Policy "p", which there is not: nothing was counted for it
impact: a dry run of a file asks of each object by itself: apply what the others need first, or count all of the file by ` + "`weir policy impact -f FILE`"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
