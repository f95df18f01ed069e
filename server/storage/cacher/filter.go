package cacher

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"weir.dev/weir/server/storage"
)

// filter says which rows a list or a watch wants.
type filter struct {
	// start is what the key after the cache's prefix starts with, or with exact the whole of it.
	start string
	exact bool
	// label and field are nil where they select everything.
	label labels.Selector
	field fields.Selector
}

// newFilter compiles a predicate for the rows at or below start.
func newFilter(start string, exact bool, p storage.SelectionPredicate) filter {
	f := filter{start: start, exact: exact}
	if p.Label != nil && !p.Label.Empty() {
		f.label = p.Label
	}
	if p.Field != nil && !p.Field.Empty() {
		f.field = p.Field
	}
	return f
}

// selects reports whether there is a selector.
func (f *filter) selects() bool { return f.label != nil || f.field != nil }

// quickRequirements is how many requirements, and values of them, a selector may have to be quick.
const quickRequirements = 32

// quick reports whether the selectors are asked in a moment. A client may send one of a megabyte.
func (f *filter) quick() bool {
	n := 0
	if f.field != nil {
		n += len(f.field.Requirements())
	}
	if f.label != nil {
		requirements, _ := f.label.Requirements()
		for _, r := range requirements {
			n += 1 + len(r.ValuesUnsorted())
		}
	}
	return n <= quickRequirements
}

// inScope reports whether a row is at or below the key.
func (f *filter) inScope(suffix string) bool {
	if f.exact {
		return suffix == f.start
	}
	return strings.HasPrefix(suffix, f.start)
}

// selected reports whether the selectors select a row.
func (f *filter) selected(el *element) bool {
	if f.field != nil && !f.field.Matches((*fieldsOf)(el)) {
		return false
	}
	return f.label == nil || f.label.Matches((*labelsOf)(el))
}

// event returns what a change is for the watcher of the filter: entering the selection
// is ADDED, leaving it DELETED with the last selected state and the revision of the change.
func (f *filter) event(e *event) (storage.Event, bool) {
	if !f.inScope(e.cur.suffix()) {
		return storage.Event{}, false
	}
	was := e.prev != nil && f.selected(e.prev)
	if e.kind == removal {
		return storage.Event{Type: storage.Deleted, Row: e.cur.row}, was
	}
	is := f.selected(e.cur)
	switch {
	case is && was:
		return storage.Event{Type: storage.Modified, Row: e.cur.row}, true
	case is:
		return storage.Event{Type: storage.Added, Row: e.cur.row}, true
	case was:
		return storage.Event{Type: storage.Deleted, Row: e.departed()}, true
	}
	return storage.Event{}, false
}

// topic returns the narrowest topic on which every event for the filter is announced.
func (f *filter) topic() topicKey {
	if f.exact {
		return topicKey{kind: keyTopic, scope: f.start}
	}
	if f.field != nil {
		for _, r := range f.field.Requirements() {
			if (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) && r.Field != namespaceField && r.Value != "" {
				return topicKey{kind: fieldTopic, scope: f.start, name: r.Field, value: r.Value}
			}
		}
	}
	if f.label != nil {
		requirements, selectable := f.label.Requirements()
		for _, r := range requirements {
			values := r.ValuesUnsorted()
			switch r.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				if selectable && len(values) == 1 {
					return topicKey{kind: labelTopic, scope: f.start, name: r.Key(), value: values[0]}
				}
			}
		}
	}
	if f.field != nil {
		if namespace, ok := f.field.RequiresExactMatch(namespaceField); ok && namespace != "" {
			return topicKey{kind: fieldTopic, scope: f.start, name: namespaceField, value: namespace}
		}
	}
	return topicKey{kind: prefixTopic, scope: f.start}
}
