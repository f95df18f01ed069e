package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Policy is admission by a Wasm module or by Rego. What it concerns, its params and what happens when it fails are said
// as in a ValidatingAdmissionPolicy; a PolicyBinding puts it in force.
//
// A policy in Rego is in force when a write of it returns. One that calls a module is when the module is ready; until then,
// and while the module is away, its failure policy decides.
type Policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PolicySpec   `json:"spec"`
	Status            PolicyStatus `json:"status,omitempty"`
}

// PolicySpec is what the operator wants. It has exactly one of wasm and rego.
type PolicySpec struct {
	// MatchConstraints say which requests the policy concerns.
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// MatchConditions are expressions in CEL that must all be true.
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// ParamKind is what the params are that a binding names.
	ParamKind *admissionregistrationv1.ParamKind `json:"paramKind,omitempty"`
	// FailurePolicy says what becomes of a request that cannot be judged: Fail or Ignore.
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// ReinvocationPolicy of what the policy changes: Never or IfNeeded, when a later policy has changed the object.
	ReinvocationPolicy admissionregistrationv1.ReinvocationPolicyType `json:"reinvocationPolicy,omitempty"`
	// Wasm judges by a module.
	Wasm *WasmPolicy `json:"wasm,omitempty"`
	// Rego judges by rules in Rego.
	Rego *RegoPolicy `json:"rego,omitempty"`
}

// WasmPolicy calls the hooks admitMutate and admitValidate of a Module, those that it implements.
type WasmPolicy struct {
	// Module is the name of a Module.
	Module string `json:"module"`
	// Settings are handed to the module's configure hook.
	Settings runtime.RawExtension `json:"settings,omitempty"`
}

// RegoPolicy judges by deny, violation, warn or allow of a package. It has exactly one of source and bundle.
type RegoPolicy struct {
	// Source is the text of a module.
	Source string `json:"source,omitempty"`
	// Bundle is a tar.gz of the Open Policy Agent (base64 in JSON).
	Bundle []byte `json:"bundle,omitempty"`
	// Digest, as sha256:<64 hex digits>, is what the bundle must have.
	Digest string `json:"digest,omitempty"`
	// Entrypoint is the package or rule to evaluate: admission/deny. Empty: the package of the first module.
	Entrypoint string `json:"entrypoint,omitempty"`
}

// Condition types of a Policy.
const (
	// PolicyReady: the newest generation judges.
	PolicyReady = "Ready"
)

// PolicyStatus is what the server makes of it.
type PolicyStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// InForce is the generation that judges.
	InForce int64 `json:"inForce,omitempty"`
	// Digest of the module or bundle in force.
	Digest string `json:"digest,omitempty"`
	// LastError says why the newest generation is not in force, and when that was found.
	LastError     string       `json:"lastError,omitempty"`
	LastErrorTime *metav1.Time `json:"lastErrorTime,omitempty"`
}

// PolicyBinding puts a Policy in force.
type PolicyBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PolicyBindingSpec   `json:"spec"`
	Status            PolicyBindingStatus `json:"status,omitempty"`
}

// The modes of a binding.
const (
	// ModeEnforce does what the policy says.
	ModeEnforce = "Enforce"
	// ModeShadow only counts and samples what the policy would have denied or changed.
	ModeShadow = "Shadow"
)

// PolicyBindingSpec is what the operator wants.
type PolicyBindingSpec struct {
	// PolicyName is the Policy that is bound.
	PolicyName string `json:"policyName"`
	// ParamRef names the params to judge by.
	ParamRef *admissionregistrationv1.ParamRef `json:"paramRef,omitempty"`
	// MatchResources narrows what the policy concerns.
	MatchResources *admissionregistrationv1.MatchResources `json:"matchResources,omitempty"`
	// ValidationActions are what follows from a denial: Deny, Warn, Audit. Default Deny.
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions,omitempty"`
	// Mode is Enforce or Shadow. Default Enforce.
	Mode string `json:"mode,omitempty"`
	// Percent of the objects that Enforce is for, by a stable hash of their namespace and name, the same for all requests
	// about one object. Objects with a generateName go by that, all of one alike. The others are judged as by Shadow. Default 100.
	Percent *int32 `json:"percent,omitempty"`
}

// Condition types of a PolicyBinding.
const (
	// PolicyBindingReady: the Policy is there and judges what the binding concerns.
	PolicyBindingReady = "Ready"
)

// PolicyBindingStatus is what came of it.
type PolicyBindingStatus struct {
	// ObservedGeneration is the generation that the counts are of.
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Servers have counted, each for itself, since it first had this generation in force. A restart goes on counting.
	Servers []PolicyBindingCounts `json:"servers,omitempty"`
}

// PolicyBindingCounts are what one server has seen.
type PolicyBindingCounts struct {
	// Server names it.
	Server string `json:"server"`
	// Since when it counts, and when it last told.
	Since metav1.Time `json:"since"`
	Until metav1.Time `json:"until"`
	// Allowed, Denied, Warned, Changed and Failed requests. Of those that are warned only a warning or an audit annotation tells, as
	// validationActions say. A request that could not be judged has failed, whether it passed or not.
	Allowed int64 `json:"allowed,omitempty"`
	Denied  int64 `json:"denied,omitempty"`
	Warned  int64 `json:"warned,omitempty"`
	Changed int64 `json:"changed,omitempty"`
	Failed  int64 `json:"failed,omitempty"`
	// ShadowDenied and ShadowChanged are what would have been, had the binding been enforced.
	ShadowDenied  int64 `json:"shadowDenied,omitempty"`
	ShadowChanged int64 `json:"shadowChanged,omitempty"`
	// MedianMicroseconds, P99Microseconds and WorstMicroseconds are what a judgement took.
	MedianMicroseconds int64 `json:"medianMicroseconds,omitempty"`
	P99Microseconds    int64 `json:"p99Microseconds,omitempty"`
	WorstMicroseconds  int64 `json:"worstMicroseconds,omitempty"`
	// LastError is the last failure, with its time.
	LastError     string       `json:"lastError,omitempty"`
	LastErrorTime *metav1.Time `json:"lastErrorTime,omitempty"`
	// Conflicts are fields that another mutating policy wrote for the same request: the last of the two stays.
	Conflicts []string `json:"conflicts,omitempty"`
	// Samples are the last few denials or changes that the shadow saw.
	Samples []PolicySample `json:"samples,omitempty"`
}

// PolicySample is one request that the shadow would have denied or changed.
type PolicySample struct {
	Time      metav1.Time `json:"time"`
	Operation string      `json:"operation"`
	// Resource is spelled deployments.apps, with a subresource deployments.apps/scale.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Message of the denial, or the fields that would have changed.
	Message string `json:"message"`
}
