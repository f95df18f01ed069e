package e2e_test

import (
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestStringData: the stringData of a Secret is data to those who manage its fields and to policies, as in kube-apiserver;
// only a manager that applies it keeps it as its own.
func TestStringData(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	const (
		policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
		secrets  = "/api/v1/namespaces/default/secrets"
	)
	do := func(want int, method, path, contentType, body string) string {
		t.Helper()
		code, answer := send(t, env, method, path, contentType, body)
		if code != want {
			t.Fatalf("%s %s: %d %s", method, path, code, answer)
		}
		return string(answer)
	}
	do(201, "POST", policies, "", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["secrets"],"operations":["CREATE","UPDATE"]}]},
		"validations":[{"expression":"!has(object.stringData) && !('forbidden' in object.data)","message":"found it"}]}}`)
	do(201, "POST", strings.TrimSuffix(policies, "policies")+"policybindings", "", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)

	if answer := do(422, "POST", secrets, "", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"forbidden":"x"}}`); !strings.Contains(answer, "found it") {
		t.Error(answer)
	}
	answer := do(201, "POST", secrets, "", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"a":"x"},"data":{"b":"eA=="}}`)
	if want := `"f:data":{".":{},"f:a":{},"f:b":{}}`; !strings.Contains(answer, want) || strings.Contains(answer, "stringData") {
		t.Errorf("%s is not in %s", want, answer)
	}
	answer = do(200, "PATCH", secrets+"/s", "application/merge-patch+json", `{"stringData":{"a":"y"}}`)
	if want := `"data":{"a":"eQ==","b":"eA=="}`; !strings.Contains(answer, want) || strings.Contains(answer, "stringData") {
		t.Errorf("%s is not in %s", want, answer)
	}
	do(422, "PATCH", secrets+"/s", "application/merge-patch+json", `{"stringData":{"forbidden":"y"}}`)
	answer = do(201, "PATCH", secrets+"/applied?fieldManager=m", "application/apply-patch+yaml", "{apiVersion: v1, kind: Secret, metadata: {name: applied}, stringData: {a: x}}")
	if want := `"f:stringData":{"f:a":{}}`; !strings.Contains(answer, want) || !strings.Contains(answer, `"data":{"a":"eA=="}`) {
		t.Errorf("%s is not in %s", want, answer)
	}
}
