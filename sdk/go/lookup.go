package weir

import (
	"errors"

	"weir.dev/weir/abi"
	"weir.dev/weir/sdk/go/internal/codec"
)

// Ref names an object to look up.
type Ref struct {
	// Group and Resource, as in the capability: lookup:deployments.apps. The
	// core group is "".
	Group, Resource string
	// Namespace of the object; empty for resources without namespaces.
	Namespace string
	// Name of the object.
	Name string
}

// Query selects objects to list.
type Query struct {
	// Group and Resource, as in the capability: lookup:deployments.apps. The
	// core group is "".
	Group, Resource string
	// Namespace; empty means all.
	Namespace string
	// Labels and Fields are selectors, spelled as kubectl's: "app=web,!old",
	// "metadata.name!=a".
	Labels, Fields string
	// Limit is the most objects; 0 means abi.MaxLookupItems.
	Limit int
}

// ObjectList is what [List] found.
type ObjectList[T any] struct {
	// Items in the order of namespace and name.
	Items []T
	// ResourceVersion of the state that was read.
	ResourceVersion string
	// More tells that the limit left objects out.
	More bool
}

// ErrNotFound is the error of [Get] for an object that does not exist.
var ErrNotFound = errors.New("the object does not exist")

// LookupError is the error of a look-up that the host refused, which an
// abi.Errno says why: abi.EPERM if the capability is not granted, abi.EINVAL if
// there is no such resource or a selector does not parse, abi.E2BIG over a limit.
type LookupError struct {
	// Resource that was looked up: "deployments.apps".
	Resource string
	// Errno of the host.
	Errno abi.Errno
}

// Error implements error.
func (e *LookupError) Error() string { return "lookup of " + e.Resource + ": " + e.Errno.Error() }

// Unwrap gives the errno.
func (e *LookupError) Unwrap() error { return e.Errno }

// Get looks an object up. Of its fields those are asked for that T has, if it is a
// struct; anything else, as map[string]any, is given the whole object. The
// module needs the capability, lookup:configmaps for a ConfigMap, among those of
// its [Info], and the operator has to grant it.
//
// The object is what the server knew last, a moment ago at most. An error is
// [ErrNotFound], a *[LookupError], or that the object does not fit T. If the server
// cannot tell, the call of the module ends there, and the request is treated as the
// failure policy says. While a module is loaded nothing can be looked up.
func Get[T any](c *Context, ref Ref) (*T, error) {
	raw, err := c.lookup(&abi.LookupRequest{
		Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name,
	}, new(T))
	if err != nil {
		return nil, err
	}
	items := codec.Elements(codec.Get(raw, "items"))
	if len(items) == 0 {
		return nil, ErrNotFound
	}
	obj := new(T)
	return obj, c.codec.Decode(items[0], obj)
}

// List looks objects up, as [Get] does one. None are no error.
func List[T any](c *Context, q Query) (*ObjectList[T], error) {
	raw, err := c.lookup(&abi.LookupRequest{
		Group: q.Group, Resource: q.Resource, Namespace: q.Namespace, LabelSelector: q.Labels, FieldSelector: q.Fields, Limit: q.Limit,
	}, new(T))
	if err != nil {
		return nil, err
	}
	items := codec.Elements(codec.Get(raw, "items"))
	list := &ObjectList[T]{Items: make([]T, len(items)), More: string(codec.Get(raw, "more")) == "true"}
	list.ResourceVersion, _ = codec.String(codec.Get(raw, "resourceVersion"))
	for i, item := range items {
		if err := c.codec.Decode(item, &list.Items[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// lookup returns the LookupResult of a request for the fields that the type which
// into points to can hold.
func (c *Context) lookup(r *abi.LookupRequest, into any) ([]byte, error) {
	// Types are got to know before the host is asked, which refuses while the
	// module is warmed up.
	c.codec.Learn(into)
	for _, names := range c.codec.Fields(into) {
		steps := make([]step, len(names))
		for i, name := range names {
			steps[i] = step{name: name}
		}
		r.Fields = append(r.Fields, joinPath(steps))
	}
	request := c.encode(r)
	host := lookuperOf(c.host)
	n := host.Lookup(request, c.arena)
	if n > len(c.arena) {
		c.arena = make([]byte, max(n, arenaBytes))
		n = host.Lookup(request, c.arena)
	}
	switch {
	case n < 0:
		e := &LookupError{Resource: r.Resource, Errno: abi.Errno(-n)}
		if r.Group != "" {
			e.Resource += "." + r.Group
		}
		return nil, e
	case n > len(c.arena):
		panic(failure("lookup of " + r.Resource + ": " + errno(n)))
	}
	return c.take(n), nil
}

// Access is what somebody may or may not do: a verb on a resource, or on a path.
// Without a ServiceAccount it is about the user of the request.
type Access = abi.AuthorizeRequest

// ServiceAccount is whom an [Access] is about.
type ServiceAccount = abi.ServiceAccount

// Authorize asks whether the user of the request, or the service account of a, may
// do what a says. The module needs the capability authorize. An error is an
// abi.Errno; if the server cannot tell, the call of the module ends there.
func Authorize(c *Context, a Access) (bool, error) {
	n := authorizerOf(c.host).Authorize(c.encode(&a))
	if n < 0 {
		return false, abi.Errno(-n)
	}
	return n == 1, nil
}
