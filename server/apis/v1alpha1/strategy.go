package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Strategy says for one resource which layers take part in its writes, in order.
// The generic strategy (metadata, generation, status separation, finalizers) always
// runs around them.
//
// It is in force when a write of it returns, if its modules are ready; otherwise when they are. When a generation
// cannot be made, the last known good stays in force. One that was in force before the server started and cannot be
// made now refuses writes of its resource with 503; reads go on.
type Strategy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              StrategySpec   `json:"spec"`
	Status            StrategyStatus `json:"status,omitempty"`
}

// StrategySpec names the resource and its layers.
type StrategySpec struct {
	// Group of the resource, "" for the core group.
	Group string `json:"group"`
	// Resource is the plural name.
	Resource string `json:"resource"`
	// Layers run in this order.
	Layers []StrategyLayer `json:"layers"`
}

// StrategyLayer is a module or a set of CEL rules.
type StrategyLayer struct {
	// Name is unique within the strategy.
	Name string `json:"name"`
	// Subresources the layer takes part in: "" is the object itself (the default), status another.
	Subresources []string     `json:"subresources,omitempty"`
	Module       *ModuleLayer `json:"module,omitempty"`
	CEL          *CELLayer    `json:"cel,omitempty"`
}

// ModuleLayer calls the hooks of a Module.
type ModuleLayer struct {
	// Name of the Module.
	Name     string               `json:"name"`
	Settings runtime.RawExtension `json:"settings,omitempty"`
}

// CELLayer is rules in CEL. Variables: object (the new object), oldObject (null on
// create), variables.<name>.
type CELLayer struct {
	// Variables are expressions with names, for those below.
	Variables []Variable `json:"variables,omitempty"`
	// Normalize changes an object as it is read of a request, before its defaults, and so before it is noted who
	// manages which field and before policies judge it: for a field that stands for another, as the stringData of a
	// Secret does. It must change nothing of what it has made.
	Normalize []Mutation `json:"normalize,omitempty"`
	// Defaults fill in what is absent.
	Defaults []DefaultRule `json:"defaults,omitempty"`
	// PrepareForCreate changes a new object before it is validated.
	PrepareForCreate []Mutation `json:"prepareForCreate,omitempty"`
	// PrepareForUpdate changes an updated object before it is validated.
	PrepareForUpdate []Mutation `json:"prepareForUpdate,omitempty"`
	// Validations must be true, or the write is refused.
	Validations []Validation `json:"validations,omitempty"`
	// Warnings are sent to the client when they are true; the write goes on.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Variable is an expression with a name, evaluated at most once per hook.
type Variable struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// DefaultRule sets one field where it is absent.
type DefaultRule struct {
	// Path of the field: dots, ['quoted'] keys, [*] for every element of a list, e.g.
	// spec.template.spec.containers[*].imagePullPolicy. Its parent must exist; an object
	// on the way that does not is not made.
	Path string `json:"path"`
	// Value is a CEL expression. item is the parent of the field.
	Value string `json:"value"`
	// When, if set, must be true. item as in Value.
	When string `json:"when,omitempty"`
	// Merge adds those entries of Value, an object, that the field lacks, instead of requiring the
	// field to be absent.
	Merge bool `json:"merge,omitempty"`
}

// Mutation changes the object. Exactly one of its members besides When is set.
type Mutation struct {
	When string `json:"when,omitempty"`
	// ApplyConfiguration is an expression of type Object{…} that is merged.
	ApplyConfiguration string `json:"applyConfiguration,omitempty"`
	// JSONPatch is an expression of a list of JSONPatch{op, path, from, value}.
	JSONPatch string `json:"jsonPatch,omitempty"`
}

// Validation must be true of the object.
type Validation struct {
	// ForEach, if set, is the path of many values, such as
	// spec.template.spec.containers[*]. The rule must be true of each of them. The
	// expressions see the value as item, its list as items, its place in the list as index
	// and its field path as path.
	ForEach    string `json:"forEach,omitempty"`
	Expression string `json:"expression"`
	// Message, or else MessageExpression (a string), says what is wrong.
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
	// Reason: FieldValueInvalid (default), FieldValueRequired, FieldValueForbidden,
	// FieldValueDuplicate, FieldValueNotSupported, FieldValueNotFound, FieldValueTooLong or
	// FieldValueTooMany. Without a message a required or duplicate value needs none;
	// for the others it is the expression.
	Reason string `json:"reason,omitempty"`
	// FieldPath of the error, e.g. spec.replicas. With ForEach it starts at the item; empty is
	// the item itself.
	FieldPath string `json:"fieldPath,omitempty"`
	// OnCreate runs a rule that names oldObject on creates too, where oldObject is null;
	// without it such a rule runs on updates only.
	OnCreate bool `json:"onCreate,omitempty"`
}

// Warning is sent to the client when its expression is true. It is evaluated on creates,
// where oldObject is null, and on updates.
type Warning struct {
	// ForEach as in Validation.
	ForEach           string `json:"forEach,omitempty"`
	Expression        string `json:"expression"`
	Message           string `json:"message,omitempty"`
	MessageExpression string `json:"messageExpression,omitempty"`
}

// Condition types of a Strategy.
const (
	StrategyCompiled = "Compiled"
	StrategyReady    = "Ready"
)

// StrategyStatus is what the server makes of it.
type StrategyStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// InForce is the generation of this object that serves requests: the last good one.
	InForce int64 `json:"inForce,omitempty"`
	// WasInForce is the one that served before the server started and cannot be made any more: writes are refused, with the
	// condition Ready of reason Unavailable.
	WasInForce int64  `json:"wasInForce,omitempty"`
	LastError  string `json:"lastError,omitempty"`
}
