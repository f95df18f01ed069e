package abi

// RawJSON is a JSON value that is carried as it is spelled. It is
// encoding/json's RawMessage without the dependency.
type RawJSON []byte

// MarshalJSON implements encoding/json's Marshaler. A nil RawJSON is null.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON implements encoding/json's Unmarshaler.
func (r *RawJSON) UnmarshalJSON(data []byte) error {
	*r = append((*r)[:0], data...)
	return nil
}

// Manifest is what weir_describe writes to [SlotManifest].
type Manifest struct {
	// Name of the module, as its author calls it; required.
	Name string `json:"name"`
	// Version of the module, free text, by habit semver.
	Version string `json:"version,omitempty"`
	// Hooks are the names of the ops that weir_invoke implements, see
	// [Op.String]; "configure" is listed like any other. A hook that is not
	// listed is never invoked.
	Hooks []string `json:"hooks"`
	// Group, Resource and Kind say what the module is written for; empty
	// means any.
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource,omitempty"`
	Kind     string `json:"kind,omitempty"`
	// Capabilities asked for: "lookup:configmaps", "lookup:deployments.apps",
	// "authorize". A module that asks for one that was not granted is not
	// loaded, nor is one that imports what it does not ask for.
	Capabilities []string `json:"capabilities,omitempty"`
	// SDK that built the module, free text, for inspection only.
	SDK string `json:"sdk,omitempty"`
}

// OpSet returns the ops of m.Hooks, and the first name that is not one.
func (m *Manifest) OpSet() (set OpSet, unknown string) {
	for _, name := range m.Hooks {
		op, ok := ParseOp(name)
		if !ok {
			if unknown == "" {
				unknown = name
			}
			continue
		}
		set = set.With(op)
	}
	return set, unknown
}

// Operation is what the request does, as in admission.k8s.io/v1.
type Operation string

// Operations. A conversion has none.
const (
	OperationCreate  Operation = "CREATE"
	OperationUpdate  Operation = "UPDATE"
	OperationDelete  Operation = "DELETE"
	OperationConnect Operation = "CONNECT"
)

// Meta is the request as a guest sees it in [SlotMeta].
type Meta struct {
	// UID of the request: unique, and the only source of randomness.
	UID       string    `json:"uid"`
	Operation Operation `json:"operation,omitempty"`
	// Time of the request, RFC 3339 in UTC with up to nine decimals. The
	// guest's clock stands still at it.
	Time        string `json:"time"`
	Group       string `json:"group"`
	Version     string `json:"version"`
	Kind        string `json:"kind"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	User        User   `json:"user"`
	DryRun      bool   `json:"dryRun,omitempty"`
	// Seed is 32 hexadecimal digits derived from UID, for guests that need
	// randomness and have no WASI random_get. The host sets it.
	Seed string `json:"seed,omitempty"`
}

// User is who sent the request, as in authentication.k8s.io/v1 UserInfo.
type User struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// Result is what a hook writes to [SlotResult]. Without Errors and Denied
// the guest has no objection.
type Result struct {
	// Errors make the request fail as invalid (422), listed together with
	// those of other validators.
	Errors []FieldError `json:"errors,omitempty"`
	// Denied refuses the request as a whole.
	Denied *Denial `json:"denied,omitempty"`
	// Warnings are sent to the client in Warning headers.
	Warnings []string `json:"warnings,omitempty"`
	// Audit annotations; the host prefixes the keys with the binding's
	// name.
	Audit map[string]string `json:"audit,omitempty"`
	// Failure says why the guest returned StatusFailed.
	Failure string `json:"failure,omitempty"`
}

// Denial is a refusal in the words of a metav1.Status.
type Denial struct {
	// Code is the HTTP status, 400 to 599; 0 means 403.
	Code int32 `json:"code,omitempty"`
	// Reason is a metav1.StatusReason; empty means by the code.
	Reason string `json:"reason,omitempty"`
	// Message for the user.
	Message string `json:"message"`
}

// FieldError is one entry of a field.ErrorList.
type FieldError struct {
	// Type is a field.ErrorType: one of the ErrorType constants here.
	Type string `json:"type"`
	// Field is the path, spec.template.spec.containers[0].name.
	Field string `json:"field"`
	// Value is the offending value; absent for Required and Forbidden.
	Value RawJSON `json:"value,omitempty"`
	// Detail for the user.
	Detail string `json:"detail,omitempty"`
}

// Types of field errors, spelled as k8s.io/apimachinery's field.ErrorType.
const (
	ErrorTypeNotFound     = "FieldValueNotFound"
	ErrorTypeRequired     = "FieldValueRequired"
	ErrorTypeDuplicate    = "FieldValueDuplicate"
	ErrorTypeInvalid      = "FieldValueInvalid"
	ErrorTypeNotSupported = "FieldValueNotSupported"
	ErrorTypeForbidden    = "FieldValueForbidden"
	ErrorTypeTooLong      = "FieldValueTooLong"
	ErrorTypeTooMany      = "FieldValueTooMany"
	ErrorTypeTooFew       = "FieldValueTooFew"
	ErrorTypeTooShort     = "FieldValueTooShort"
	ErrorTypeInternal     = "InternalError"
	ErrorTypeTypeInvalid  = "FieldValueTypeInvalid"
)

// ErrorTypes returns all types that a [FieldError] may have.
func ErrorTypes() []string {
	return []string{
		ErrorTypeNotFound, ErrorTypeRequired, ErrorTypeDuplicate,
		ErrorTypeInvalid, ErrorTypeNotSupported, ErrorTypeForbidden,
		ErrorTypeTooLong, ErrorTypeTooMany, ErrorTypeTooFew,
		ErrorTypeTooShort, ErrorTypeInternal, ErrorTypeTypeInvalid,
	}
}
