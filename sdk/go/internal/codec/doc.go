// Package codec reads and writes JSON for guests, which have to stay small:
// with encoding/json a guest is 1.3 MB larger and its calls are many times
// slower.
//
// It follows encoding/json's tags (name, omitempty, omitzero, inline) and its
// Marshaler, Unmarshaler, TextMarshaler and TextUnmarshaler interfaces, and
// the conventions of the Kubernetes API where they differ: names of members
// are case-sensitive, null is the same as absent, and so is a nil pointer,
// map or slice. An integer in an any is an int64.
//
// Input is trusted to be well-formed, since the host has parsed it. Input that
// is not gives an error or some value, never a panic.
package codec
