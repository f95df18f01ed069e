package policy

import (
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/abi/document"
)

// documentLabels are the labels of an object, read where they stand.
type documentLabels struct{ value document.Value }

var _ labels.Labels = documentLabels{}

func labelsOf(obj *document.Document) documentLabels {
	return documentLabels{obj.Get("metadata", "labels")}
}

// labelsOfAny are those of an object that may be nil.
func labelsOfAny(obj *document.Document) documentLabels {
	if obj == nil {
		return documentLabels{}
	}
	return labelsOf(obj)
}

// Has implements labels.Labels.
func (l documentLabels) Has(name string) bool { return l.value.Get(name).Exists() }

// Get implements labels.Labels.
func (l documentLabels) Get(name string) string { return l.value.Get(name).String() }

// Lookup implements labels.Labels.
func (l documentLabels) Lookup(name string) (string, bool) {
	v := l.value.Get(name)
	return v.String(), v.Exists()
}
