package storage

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// AttrFunc reads the labels and the selectable fields of a served object.
// metadata.name and, for a namespaced resource, metadata.namespace are among the fields.
type AttrFunc func(value []byte) (labels.Set, fields.Set, error)

// SelectionPredicate says which objects a list or a watch wants.
type SelectionPredicate struct {
	Label    labels.Selector
	Field    fields.Selector
	GetAttrs AttrFunc
	// Limit is the largest number of rows of one page; 0 means all.
	Limit    int64
	Continue string
	// AllowWatchBookmarks lets a watch send bookmarks.
	AllowWatchBookmarks bool
}

// Everything selects all objects.
var Everything = SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()}

// Empty reports whether the predicate selects every object.
func (p SelectionPredicate) Empty() bool {
	return (p.Label == nil || p.Label.Empty()) && (p.Field == nil || p.Field.Empty())
}

// MatchesAttributes reports whether an object with these labels and fields is selected.
func (p SelectionPredicate) MatchesAttributes(l labels.Set, f fields.Set) bool {
	if p.Label != nil && !p.Label.Empty() && !p.Label.Matches(l) {
		return false
	}
	return p.Field == nil || p.Field.Empty() || p.Field.Matches(f)
}

// Matches reports whether the object of value is selected.
func (p SelectionPredicate) Matches(value []byte) (bool, error) {
	if p.Empty() {
		return true, nil
	}
	l, f, err := p.GetAttrs(value)
	if err != nil {
		return false, err
	}
	return p.MatchesAttributes(l, f), nil
}

// MatchesSingleName returns the name where the field selector allows only one.
func (p SelectionPredicate) MatchesSingleName() (string, bool) {
	if p.Field == nil || p.Continue != "" {
		return "", false
	}
	return p.Field.RequiresExactMatch("metadata.name")
}
