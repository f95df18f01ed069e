package apply

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Types knows the merge types of the kinds of one group version, or of one custom
// resource. They are built at the first write that needs them.
type Types struct {
	source   func() (map[string]*spec.Schema, error)
	preserve bool

	once      sync.Once
	converter managedfields.TypeConverter
	err       error
}

// NewTypes returns the Types of the OpenAPI definitions that source gives: all that the kinds refer
// to, each kind marked by x-kubernetes-group-version-kind. preserve keeps fields that
// the definitions do not know. A nil source deduces types from the objects: all lists are atomic.
func NewTypes(source func() (map[string]*spec.Schema, error), preserve bool) *Types {
	return &Types{source: source, preserve: preserve}
}

func (t *Types) typeConverter() (managedfields.TypeConverter, error) {
	t.once.Do(func() {
		if t.source == nil {
			t.converter = managedfields.NewDeducedTypeConverter()
			return
		}
		definitions, err := t.source()
		if err != nil {
			t.err = fmt.Errorf("merge types: %w", err)
			return
		}
		if t.converter, err = managedfields.NewTypeConverter(definitions, t.preserve); err != nil {
			t.err = fmt.Errorf("merge types: %w", err)
		}
	})
	return t.converter, t.err
}
