package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
)

// Objects are a Lookuper with objects in memory. A resource is found by the usual
// plural of a kind, unless NewObjectsOf was told another; of one that has no
// objects there is nothing. The group is that of apiVersion. Field selectors may
// name any field.
type Objects struct {
	sorted  []object
	version string
}

var _ Lookuper = (*Objects)(nil)

type object struct {
	group, resource, namespace, name string
	doc                              *document.Document
}

// NewObjects returns Objects. Each needs an apiVersion, a kind and a name.
func NewObjects(docs ...*document.Document) (*Objects, error) {
	return NewObjectsOf(func(_, kind string) string { return plural(kind) }, docs...)
}

// NewObjectsOf returns Objects that are found by what resource says is the
// resource of a kind.
func NewObjectsOf(resource func(group, kind string) string, docs ...*document.Document) (*Objects, error) {
	o := &Objects{}
	newest := 1
	for i, d := range docs {
		kind, apiVersion := d.Get("kind").String(), d.Get("apiVersion").String()
		meta := d.Get("metadata")
		made := object{namespace: meta.Get("namespace").String(), name: meta.Get("name").String(), doc: d}
		if kind == "" || apiVersion == "" || made.name == "" {
			return nil, fmt.Errorf("object %d: it needs apiVersion, kind and metadata.name", i)
		}
		if group, _, ok := strings.Cut(apiVersion, "/"); ok {
			made.group = group
		}
		made.resource = resource(made.group, kind)
		if n, err := strconv.Atoi(meta.Get("resourceVersion").String()); err == nil {
			newest = max(newest, n)
		}
		o.sorted = append(o.sorted, made)
	}
	o.version = strconv.Itoa(newest)
	order := func(a, b object) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource),
			cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	}
	slices.SortStableFunc(o.sorted, order)
	for i := 1; i < len(o.sorted); i++ {
		if order(o.sorted[i-1], o.sorted[i]) == 0 {
			return nil, fmt.Errorf("%s %q: there are two", o.sorted[i].resource, o.sorted[i].name)
		}
	}
	return o, nil
}

// plural is the resource that a kind usually has.
func plural(kind string) string {
	s := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(s, "endpoints"):
		return s
	case strings.HasSuffix(s, "s"), strings.HasSuffix(s, "x"), strings.HasSuffix(s, "ch"), strings.HasSuffix(s, "sh"):
		return s + "es"
	case strings.HasSuffix(s, "y") && !strings.ContainsAny(s[max(0, len(s)-2):len(s)-1], "aeou"):
		return strings.TrimSuffix(s, "y") + "ies"
	}
	return s + "s"
}

// Lookup implements Lookuper. Nil Objects are none.
func (o *Objects) Lookup(_ context.Context, q *Query) (*Found, error) {
	labels, err := parseSelector(q.LabelSelector)
	if err != nil {
		return nil, abi.EINVAL
	}
	fields, err := parseFields(q.FieldSelector)
	if err != nil {
		return nil, abi.EINVAL
	}
	f := &Found{}
	if o == nil {
		return f, nil
	}
	if q.Name == "" {
		f.ResourceVersion = o.version
	}
	for _, obj := range o.sorted {
		if obj.group != q.Group || obj.resource != q.Resource || q.Name != "" && (obj.name != q.Name || obj.namespace != q.Namespace) ||
			q.Namespace != "" && obj.namespace != q.Namespace {
			continue
		}
		// As in a server, there is more where there are objects, selected or not.
		if len(f.Items) == q.Limit {
			f.More = true
			break
		}
		if f.Scanned++; q.MaxScan > 0 && f.Scanned > q.MaxScan {
			return nil, abi.E2BIG
		}
		if !labels.match(obj.doc) || !fields.match(obj.doc) {
			continue
		}
		f.Items = append(f.Items, obj.doc)
		if q.Name != "" {
			f.ResourceVersion = obj.doc.Get("metadata", "resourceVersion").String()
		}
	}
	return f, nil
}

// Allowed are an Authorizer that allows what one of them describes: a member that
// is empty, or *, stands for anything, apart from ServiceAccount: without, it is
// about the user of the request.
type Allowed []abi.AuthorizeRequest

var _ Authorizer = Allowed(nil)

// Authorize implements Authorizer.
func (l Allowed) Authorize(_ context.Context, a *abi.AuthorizeRequest) (bool, error) {
	return slices.ContainsFunc(l, func(rule abi.AuthorizeRequest) bool {
		if (rule.ServiceAccount == nil) != (a.ServiceAccount == nil) || rule.ServiceAccount != nil && *rule.ServiceAccount != *a.ServiceAccount {
			return false
		}
		if (rule.Path != "") != (a.Path != "") {
			return false
		}
		for _, pair := range [...][2]string{
			{rule.Verb, a.Verb}, {rule.Group, a.Group}, {rule.Resource, a.Resource}, {rule.Subresource, a.Subresource},
			{rule.Namespace, a.Namespace}, {rule.Name, a.Name}, {rule.Path, a.Path},
		} {
			if pair[0] != "" && pair[0] != "*" && pair[0] != pair[1] {
				return false
			}
		}
		return true
	}), nil
}

// errSelector is the error of a selector that does not parse.
var errSelector = errors.New("the selector does not parse")
