package recording

import (
	"encoding/json"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Record is one line of a recording: an AdmissionReview of admission.k8s.io/v1 with a member of its own.
type Record struct {
	metav1.TypeMeta `json:",inline"`
	Request         *Request  `json:"request,omitempty"`
	Response        *Response `json:"response,omitempty"`
	Weir            *Details  `json:"weir,omitempty"`
}

// Request is an AdmissionRequest of admission.k8s.io/v1 with its objects as they are.
type Request struct {
	UID                string                       `json:"uid"`
	Kind               metav1.GroupVersionKind      `json:"kind"`
	Resource           metav1.GroupVersionResource  `json:"resource"`
	SubResource        string                       `json:"subResource,omitempty"`
	RequestKind        *metav1.GroupVersionKind     `json:"requestKind,omitempty"`
	RequestResource    *metav1.GroupVersionResource `json:"requestResource,omitempty"`
	RequestSubResource string                       `json:"requestSubResource,omitempty"`
	Name               string                       `json:"name,omitempty"`
	Namespace          string                       `json:"namespace,omitempty"`
	Operation          string                       `json:"operation"`
	UserInfo           authenticationv1.UserInfo    `json:"userInfo"`
	Object             json.RawMessage              `json:"object,omitempty"`
	OldObject          json.RawMessage              `json:"oldObject,omitempty"`
	DryRun             bool                         `json:"dryRun,omitempty"`
	Options            json.RawMessage              `json:"options,omitempty"`
}

// Response is what the policies said together, as far as they are enforced: what else admission refused, or became of the
// request afterwards, is not recorded. Of an audit log it is what became of the request.
type Response struct {
	UID     string         `json:"uid"`
	Allowed bool           `json:"allowed"`
	Status  *metav1.Status `json:"status,omitempty"`
}

// The phases of admission.
const (
	// Mutate is the phase in which policies change what a client sent. A request is recorded in it when a mutating
	// policy concerned it.
	Mutate = "Mutate"
	// Validate is the phase in which policies judge what will be stored.
	Validate = "Validate"
)

// Details are what a record has beside an AdmissionReview.
type Details struct {
	Time  time.Time `json:"time"`
	Phase string    `json:"phase"`
	// Mutated says, in the phase Validate, that there is a record of the same request in the phase Mutate before it.
	Mutated bool `json:"mutated,omitempty"`
	// Verdicts are what each policy said that concerned the request.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Patched is the object as the mutating policies left it, where they changed it.
	Patched json.RawMessage `json:"patched,omitempty"`
	// Namespace is that of the object: as the policies read it, or, where none did, as it was when the record was written.
	// It is left out where Config.Redact names namespaces, but for its name where a policy read it.
	Namespace json.RawMessage `json:"namespace,omitempty"`
	// Params are the objects that policies judged by.
	Params []Param `json:"params,omitempty"`
	// Redacted says that the content of the object, of a param, or of the namespace that a policy read, was left out. Such a request cannot be judged again.
	Redacted bool `json:"redacted,omitempty"`
	// WithoutOldObject says that the source of the record has none, though there was one.
	WithoutOldObject bool `json:"withoutOldObject,omitempty"`
	// WithoutVerdicts says that only what became of the request as a whole is known.
	WithoutVerdicts bool `json:"withoutVerdicts,omitempty"`
}

// Param is an object that a policy judged by.
type Param struct {
	Kind    string          `json:"kind"`
	Policy  string          `json:"policy"`
	Binding string          `json:"binding,omitempty"`
	Object  json.RawMessage `json:"object"`
}

// Verdict is what one policy said by one binding and one param.
type Verdict struct {
	Kind    string `json:"kind"`
	Policy  string `json:"policy"`
	Binding string `json:"binding,omitempty"`
	// Outcome is allow, deny, error, ignored_error, mutate, shadow_deny or shadow_mutate.
	Outcome string `json:"outcome"`
	Message string `json:"message,omitempty"`
}
