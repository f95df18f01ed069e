package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PolicyImpact asks what policies and bindings would do to the objects that are stored, were these written again. It is
// answered and not stored, and nothing else is written.
//
// Policies judge in the name of whoever asks, who must be able to list the objects, and to get the namespaces that a policy
// reads. To ask about a Policy by a module takes permission to create policies. Who may not create policies of the kinds that
// are asked about has modules look nothing up, and expressions ask no authorizer.
type PolicyImpact struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PolicyImpactSpec   `json:"spec"`
	Status            PolicyImpactStatus `json:"status,omitempty"`
}

// PolicyImpactSpec is the question.
type PolicyImpactSpec struct {
	// Objects are policies and bindings of admissionregistration.k8s.io and of weir.dev, and params, in any order, as they
	// would be written. They stand before stored ones of the same name. A policy is judged by the bindings that name it, given
	// or stored; one that none names and that has no params, as if it were bound to all that it concerns. At most 1000, of
	// which 200 are policies and 8 have settings of modules that nothing in force has.
	Objects []runtime.RawExtension `json:"objects"`
	// Operation that each object is judged as: CREATE, UPDATE or DELETE. Empty: what each policy concerns, an update that
	// changes nothing, else a creation, else a deletion.
	Operation string `json:"operation,omitempty"`
	// Namespace narrows the question to its objects.
	Namespace string `json:"namespace,omitempty"`
	// Limit bounds the findings of the answer. Default 10, at most 1000.
	Limit *int32 `json:"limit,omitempty"`
	// MaxObjects ends the count after so many objects. 0: it ends with the time.
	MaxObjects int64 `json:"maxObjects,omitempty"`
	// TimeoutSeconds bounds the time, within that of the request.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// Continue is that of an earlier answer to the same question, which goes on from there.
	Continue string `json:"continue,omitempty"`
}

// PolicyImpactStatus is the answer. With continue, its counts are of what was looked at since then.
type PolicyImpactStatus struct {
	// Complete is set when all objects were looked at. Otherwise reason says why not, and continue where to go on.
	Complete bool   `json:"complete"`
	Reason   string `json:"reason,omitempty"`
	Continue string `json:"continue,omitempty"`
	// Resources that the policies concern.
	Resources []PolicyImpactResource `json:"resources,omitempty"`
	// Findings are the first, in the order of the objects.
	Findings []PolicyImpactFinding `json:"findings,omitempty"`
	// Notes say what was taken for granted, and what could not be counted.
	Notes []string `json:"notes,omitempty"`
}

// PolicyImpactResource counts the objects of one resource. An object counts once in each of the verdicts.
type PolicyImpactResource struct {
	// Resource is spelled deployments.apps.
	Resource string `json:"resource"`
	// Operations that objects were judged as.
	Operations []string `json:"operations,omitempty"`
	// Objects that were looked at, and those of them that a policy and a binding concern.
	Objects   int64 `json:"objects"`
	Concerned int64 `json:"concerned"`
	// Denied, Changed and Failed objects. One that could not be judged has failed, whether that denies it or not.
	Denied  int64 `json:"denied"`
	Changed int64 `json:"changed"`
	Failed  int64 `json:"failed"`
	// Warned would only be told of, in a warning or an audit annotation; Shadowed would be counted by a binding in shadow.
	Warned   int64 `json:"warned"`
	Shadowed int64 `json:"shadowed"`
	// NotCounted says why the objects were not looked at.
	NotCounted string `json:"notCounted,omitempty"`
}

// PolicyImpactFinding is what a binding would do to one object.
type PolicyImpactFinding struct {
	// Resource is spelled deployments.apps.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Verdict is Denied, Changed, Failed, Warned or Shadowed; refused is set where a write of the object would be refused.
	Verdict string `json:"verdict"`
	Refused bool   `json:"refused,omitempty"`
	// Kind of the policy, its name, and that of the binding.
	Kind    string `json:"kind,omitempty"`
	Policy  string `json:"policy,omitempty"`
	Binding string `json:"binding,omitempty"`
	// Message of the denial, or the fields that would change.
	Message string `json:"message,omitempty"`
}

// PolicyImpactLine is a line of the answer as a stream (application/x-ndjson): findings, then the status, without any,
// or an error.
type PolicyImpactLine struct {
	Finding *PolicyImpactFinding `json:"finding,omitempty"`
	Status  *PolicyImpactStatus  `json:"status,omitempty"`
	Error   *metav1.Status       `json:"error,omitempty"`
}
