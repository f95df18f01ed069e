package weir

import (
	"strconv"
	"strings"

	"weir.dev/weir/abi"
)

// FieldError says what is wrong with one field. It reads as those of
// k8s.io/apimachinery's package field.
type FieldError struct {
	// Type is one of abi's ErrorType constants.
	Type string
	// Field is the path, spec.containers[0].name.
	Field string
	// Value is the offending value; nil for none.
	Value any
	// Detail for the user.
	Detail string
}

// ErrorList is what a validation finds. It is an error, to be returned from
// admission.
type ErrorList []FieldError

// Error implements error.
func (l ErrorList) Error() string {
	texts := make([]string, len(l))
	for i, e := range l {
		texts[i] = e.Field + ": " + e.Type
		if e.Detail != "" {
			texts[i] += ": " + e.Detail
		}
	}
	return strings.Join(texts, ", ")
}

// Invalid is the error of a value that is not valid.
func Invalid(field Path, value any, detail string) FieldError {
	return FieldError{Type: abi.ErrorTypeInvalid, Field: string(field), Value: value, Detail: detail}
}

// Required is the error of a value that is missing.
func Required(field Path, detail string) FieldError {
	return FieldError{Type: abi.ErrorTypeRequired, Field: string(field), Detail: detail}
}

// Forbidden is the error of a field that may not be set.
func Forbidden(field Path, detail string) FieldError {
	return FieldError{Type: abi.ErrorTypeForbidden, Field: string(field), Detail: detail}
}

// Duplicate is the error of a value that occurs twice.
func Duplicate(field Path, value any) FieldError {
	return FieldError{Type: abi.ErrorTypeDuplicate, Field: string(field), Value: value}
}

// NotSupported is the error of a value that is none of those there are.
func NotSupported(field Path, value any, supported ...string) FieldError {
	detail := ""
	if len(supported) > 0 {
		quoted := make([]string, len(supported))
		for i, s := range supported {
			quoted[i] = strconv.Quote(s)
		}
		detail = "supported values: " + strings.Join(quoted, ", ")
	}
	return FieldError{Type: abi.ErrorTypeNotSupported, Field: string(field), Value: value, Detail: detail}
}

// NotFound is the error of a value that refers to nothing.
func NotFound(field Path, value any) FieldError {
	return FieldError{Type: abi.ErrorTypeNotFound, Field: string(field), Value: value}
}

// TypeInvalid is the error of a value of the wrong type.
func TypeInvalid(field Path, value any, detail string) FieldError {
	return FieldError{Type: abi.ErrorTypeTypeInvalid, Field: string(field), Value: value, Detail: detail}
}

// TooLong is the error of a value of more than max bytes. The value is not
// repeated.
func TooLong(field Path, max int) FieldError {
	return FieldError{Type: abi.ErrorTypeTooLong, Field: string(field), Detail: "may not be more than " + strconv.Itoa(max) + " bytes"}
}

// TooMany is the error of a list of more than max items.
func TooMany(field Path, actual, max int) FieldError {
	return FieldError{Type: abi.ErrorTypeTooMany, Field: string(field), Value: actual, Detail: "must have at most " + strconv.Itoa(max) + " items"}
}

// Denial refuses a request as a whole.
type Denial struct {
	// Code is the HTTP status, 400 to 599; 0 means 403.
	Code int
	// Reason is a metav1.StatusReason; empty means by the code.
	Reason string
	// Message for the user.
	Message string
}

// Error implements error.
func (d *Denial) Error() string { return d.Message }

// Deny returns a Denial as forbidden.
func Deny(message string) *Denial { return &Denial{Message: message} }

// Path names a field: spec.containers[0].name. A constant string is one.
type Path string

// Child returns the path of a member.
func (p Path) Child(name string) Path {
	if p == "" {
		return Path(name)
	}
	return p + "." + Path(name)
}

// Index returns the path of a list element.
func (p Path) Index(i int) Path { return p + "[" + Path(strconv.Itoa(i)) + "]" }

// Key returns the path of a map's value.
func (p Path) Key(key string) Path { return p + "[" + Path(key) + "]" }
