package weir

import (
	"errors"
	"strconv"

	"weir.dev/weir/sdk/go/internal/codec"
)

// TypeMeta says what an object is. It is embedded.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// ObjectMeta is what most strategies need of metadata.
type ObjectMeta struct {
	Name              string            `json:"name,omitempty"`
	GenerateName      string            `json:"generateName,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp string            `json:"creationTimestamp,omitempty"`
	DeletionTimestamp string            `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
}

// IntOrString is an integer of 32 bits or a string such as a percentage. The
// zero value is 0.
type IntOrString struct {
	IsString bool
	Int      int32
	Str      string
}

// FromInt makes an IntOrString of a number.
func FromInt(n int32) IntOrString { return IntOrString{Int: n} }

// FromString makes an IntOrString of a string.
func FromString(s string) IntOrString { return IntOrString{IsString: true, Str: s} }

// MarshalJSON implements encoding/json's Marshaler.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.IsString {
		return codec.AppendString(nil, v.Str), nil
	}
	return strconv.AppendInt(nil, int64(v.Int), 10), nil
}

// UnmarshalJSON implements encoding/json's Unmarshaler.
func (v *IntOrString) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		s, ok := codec.String(data)
		if !ok {
			return errors.New("not a string")
		}
		*v = FromString(s)
		return nil
	}
	if string(data) == "null" {
		return nil
	}
	n, err := strconv.ParseInt(string(data), 10, 32)
	if err != nil {
		return errors.New("neither a string nor an integer of 32 bits")
	}
	*v = FromInt(int32(n))
	return nil
}
