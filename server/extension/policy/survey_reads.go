package policy

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// lastNamespace remembers the namespace that was asked for last: a survey meets objects in the order of their namespaces.
// One goroutine uses it.
type lastNamespace struct {
	from rest.Getter
	name string
	obj  *document.Document
	err  error
}

var _ rest.Getter = (*lastNamespace)(nil)

// Get implements rest.Getter.
func (l *lastNamespace) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	if name == "" || name != l.name {
		l.obj, l.err = l.from.Get(ctx, name, opts)
		l.name = name
	}
	return l.obj, l.err
}

// noWarnings forgets warnings.
type noWarnings struct{}

// AddWarning implements warning.Recorder.
func (noWarnings) AddWarning(string, string) {}

// withoutWarnings returns a context in which nobody is warned.
func withoutWarnings(ctx context.Context) context.Context {
	return warning.WithWarningRecorder(ctx, noWarnings{})
}

// givenParams returns those of the given objects that a ParamRef refers to.
func (e *evaluation) givenParams(kind schema.GroupVersionKind, namespace string, ref *ParamRef) []*document.Document {
	var list []*document.Document
	for _, obj := range e.given {
		meta := rest.MetaOf(obj)
		if rest.KindOf(obj) != kind || meta.Namespace() != namespace {
			continue
		}
		if ref.Name != "" && meta.Name() == ref.Name || ref.Name == "" && ref.Selector != nil && ref.Selector.Matches(labelsOf(obj)) {
			list = append(list, obj)
		}
	}
	return list
}

// withGiven puts the given params before the stored ones of the same name.
func withGiven(given, stored []*document.Document) []*document.Document {
	if len(given) == 0 {
		return stored
	}
	list := given
	for _, obj := range stored {
		known := false
		for _, g := range given {
			known = known || rest.MetaOf(g).Name() == rest.MetaOf(obj).Name()
		}
		if !known {
			list = append(list, obj)
		}
	}
	return list
}
