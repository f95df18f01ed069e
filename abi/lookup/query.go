// Package lookup is what the two sides of the lookup import share beside its
// types in package abi: a request that was checked, how its answer is spelled,
// and objects in memory that answer it, for tests of guests.
package lookup

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
)

// Lookuper finds the objects that guests ask for.
type Lookuper interface {
	// Lookup returns what a query selects, at most q.Limit of it, and goes through
	// q.MaxScan objects at most. It must not wait longer than ctx. An error that is an abi.Errno is the guest's to
	// handle: EINVAL for a resource that does not exist or a selector that does
	// not parse, E2BIG where MaxScan is not enough. Any other says that there is no answer now.
	Lookup(ctx context.Context, q *Query) (*Found, error)
}

// Authorizer tells what users may do.
type Authorizer interface {
	// Authorize tells whether the user of the request that ctx is of, or the
	// service account that a names, may do what a describes. An error that is
	// an abi.Errno is the guest's to handle; any other says that there is no
	// answer now.
	Authorize(ctx context.Context, a *abi.AuthorizeRequest) (bool, error)
}

// Query is a LookupRequest that was checked. Its Limit is set.
type Query struct {
	abi.LookupRequest
	// MaxScan is how many objects a list may go through: for more the answer
	// is E2BIG. 0 is any number.
	MaxScan int
	mask    *document.Mask // nil: objects are whole
}

// Found is what a Query found.
type Found struct {
	// ResourceVersion of the list, or of the one object.
	ResourceVersion string
	// Items are whole, in the order of namespace and name.
	Items []*document.Document
	// More were left out because of the limit.
	More bool
	// Scanned is how many objects of the resource, and the namespace, a list went
	// through up to the last that it needed, Items included. It depends on
	// the state that was seen alone.
	Scanned int
}

// identity are the fields that every masked object has.
var identity = [...]string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}

// ParseQuery reads a LookupRequest. The error is an abi.Errno: E2BIG or EINVAL.
func ParseQuery(raw []byte) (*Query, error) {
	if len(raw) > abi.MaxLookupRequestBytes {
		return nil, abi.E2BIG
	}
	q := &Query{}
	if !decode(raw, &q.LookupRequest) || q.Resource == "" || q.Limit < 0 || q.Limit > abi.MaxLookupItems {
		return nil, abi.EINVAL
	}
	// What is asked for must be what its capability names: no pods.v1 of the core group.
	if group, resource, _ := abi.ParseLookup(q.Capability()); group != q.Group || resource != q.Resource || resource == "*" {
		return nil, abi.EINVAL
	}
	if q.Name != "" && (q.LabelSelector != "" || q.FieldSelector != "") {
		return nil, abi.EINVAL
	}
	if q.Limit == 0 {
		q.Limit = abi.MaxLookupItems
	}
	if len(q.Fields) > 0 {
		mask, err := document.NewMask(append(identity[:], q.Fields...)...)
		if err != nil {
			return nil, abi.EINVAL
		}
		q.mask = mask
	}
	return q, nil
}

// Capability that the query needs.
func (q *Query) Capability() string { return abi.LookupCapability(q.Group, q.Resource) }

// Read is how many bytes of objects an answer is made of.
func (f *Found) Read() int {
	n := 0
	for _, obj := range f.Items {
		n += len(obj.Bytes())
	}
	return n
}

// Answer spells the LookupResult of what was found. The error is abi.E2BIG.
func (q *Query) Answer(f *Found) ([]byte, error) {
	b := append(make([]byte, 0, 1024), `{"items":[`...)
	for i, obj := range f.Items {
		if i > 0 {
			b = append(b, ',')
		}
		if q.mask == nil {
			b = append(b, obj.Bytes()...)
		} else {
			b = obj.Root().AppendMasked(b, q.mask)
		}
		if len(b) > abi.MaxLookupBytes {
			return nil, abi.E2BIG
		}
	}
	b = append(b, ']')
	if f.More {
		b = append(b, `,"more":true`...)
	}
	b = append(strconv.AppendQuote(append(b, `,"resourceVersion":`...), f.ResourceVersion), '}')
	if len(b) > abi.MaxLookupBytes {
		return nil, abi.E2BIG
	}
	return b, nil
}

// ParseAuthorize reads an AuthorizeRequest. The error is an abi.Errno: E2BIG or
// EINVAL.
func ParseAuthorize(raw []byte) (*abi.AuthorizeRequest, error) {
	if len(raw) > abi.MaxAuthorizeRequestBytes {
		return nil, abi.E2BIG
	}
	a := &abi.AuthorizeRequest{}
	if !decode(raw, a) || a.Verb == "" || (a.Resource == "") == (a.Path == "") {
		return nil, abi.EINVAL
	}
	if s := a.ServiceAccount; s != nil && (s.Namespace == "" || s.Name == "") {
		return nil, abi.EINVAL
	}
	return a, nil
}

// decode is strict: a member that this host does not know would narrow what is
// asked, and be missed.
func decode(raw []byte, into any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil {
		return false
	}
	_, err := d.Token()
	return err == io.EOF
}
