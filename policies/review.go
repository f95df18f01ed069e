package policies

import (
	"context"
	"sync"
	"time"

	"weir.dev/weir/abi/document"
)

// Judge is a compiled policy: it says whether a request may be admitted. It is immutable
// and may be used concurrently.
type Judge interface {
	// Judge judges one request. The error is that nothing was judged at all: ctx was done,
	// or the policy as a whole could not be evaluated. What its error means is the
	// caller's to say, as is that of a Denial with an Err.
	Judge(ctx context.Context, r *Review) (*Decision, error)
}

// Review is one request to judge. An Absent value is null to a policy. It is not changed
// once it is judged, and may be judged by several goroutines.
type Review struct {
	// Object is what would be stored, Absent when it is deleted.
	Object document.Value
	// OldObject is what is stored, Absent when there is nothing yet.
	OldObject document.Value
	// Request has the fields of AdmissionRequest in admission.k8s.io/v1, without object and
	// oldObject.
	Request document.Value
	// Params is what the binding refers to.
	Params document.Value
	// NamespaceObject is the namespace of a namespaced object.
	NamespaceObject document.Value
	// Late gives Request and NamespaceObject to a judge that finds out while it judges whether it wants them; nil: what there
	// is is set.
	Late LateInputs
	// Settings are those of the policy itself, where its kind has some.
	Settings document.Value
	// Authorizer is what expressions may ask whether the user may do something: a value
	// that the engine's package made, or nil.
	Authorizer any
	// Time of the request: the only clock that a policy has.
	Time time.Time
	// Spent is added what was spent on the request, match conditions included; nil: nobody wants to know. One goroutine
	// judges where it is set.
	Spent *Cost
	// Memo keeps what engines make of the documents of one request, for all its policies.
	// It may be nil.
	Memo *Memo
	// Held keeps which match conditions hold, for all bindings and params by which a policy judges one request. It may
	// be nil.
	Held *Held
	// Runs keeps what a run has made of the documents for all policies by which one goroutine judges the request. It may be
	// nil.
	Runs *Runs
}

// LateInputs are inputs that are made or read when they are asked for, once. They may be asked for until the judge returns.
type LateInputs interface {
	// Request is that of the Review.
	Request() document.Value
	// NamespaceObject reads that of the Review.
	NamespaceObject(ctx context.Context) (document.Value, error)
}

// Decision is what a policy has to say on a request. No Denials admit it. It is not changed once it is returned.
type Decision struct {
	// Denials in the order of the policy, or, where it has none, sorted by message.
	Denials []Denial
	// Warnings for the client, in the same order.
	Warnings []string
	// AuditAnnotations in the order of the policy. Their keys are not qualified by its name.
	AuditAnnotations []AuditAnnotation
}

// admitted is the Decision that says nothing, for all requests of which there is nothing to say.
var admitted = &Decision{}

// Denial is one reason not to admit a request.
type Denial struct {
	// Path of what denies, in the policy: spec.validations[0].expression. It may be empty.
	Path string
	// Message for the client: one line, not empty.
	Message string
	// Reason as in metav1.StatusReason. Empty: Invalid.
	Reason string
	// Code is the status code, when it is not that of the reason.
	Code int32
	// Field is the path of what is wrong in the object, if it is known.
	Field string
	// Details that the policy gave beside the message, or nil.
	Details *document.Document
	// Err is set when this validation could not be evaluated. Whether it denies is then a
	// question of the policy's failurePolicy, and Message is that of the error.
	Err error
}

// AuditAnnotation is published with the audit event of the request.
type AuditAnnotation struct {
	Key, Value string
	// Err is set when the value could not be evaluated.
	Err error
}

// Denied returns the denials that count: all, or, where the policy says to ignore
// failures, those that are none.
func (d *Decision) Denied(ignoreFailures bool) []Denial {
	if !ignoreFailures {
		return d.Denials
	}
	var out []Denial
	for _, denial := range d.Denials {
		if denial.Err == nil {
			out = append(out, denial)
		}
	}
	return out
}

// Memo keeps values by key. The zero value is empty; a nil one keeps nothing. It may be
// used concurrently.
type Memo struct {
	mu     sync.Mutex
	values map[any]any // guarded by mu
}

// Get returns the value of key, which it makes first if there is none. Keys are of types
// of their package, as those of a context.
func (m *Memo) Get(key any, build func() any) any {
	if m == nil {
		return build()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	if !ok {
		v = build()
		if m.values == nil {
			m.values = map[any]any{}
		}
		m.values[key] = v
	}
	return v
}
