package loader

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// undecodedError is why a stored object, though it is JSON, is none of its kind: somebody else wrote it.
type undecodedError struct{ error }

func (e *undecodedError) Unwrap() error { return e.error }

// undecoded makes an undecodedError of err, nil of nil.
func undecoded(err error) error {
	if err == nil {
		return nil
	}
	return &undecodedError{err}
}

type undecodedKey struct {
	schema.GroupResource
	name string
}

// noteDecodedLocked remembers stored policies, bindings, strategies and modules that do not decode: a server does not start
// without what they would have decided. A definition that does not is only not served. err is nil for what decodes, or is deleted.
func (l *Loader) noteDecodedLocked(gr schema.GroupResource, name string, err error) {
	key := undecodedKey{gr, name}
	if e := (*undecodedError)(nil); errors.As(err, &e) {
		l.undecoded[key] = err
	} else {
		delete(l.undecoded, key)
	}
}

// forgetUndecodedLocked forgets those of a resource that is read anew.
func (l *Loader) forgetUndecodedLocked(gr schema.GroupResource) {
	maps.DeleteFunc(l.undecoded, func(key undecodedKey, _ error) bool { return key.GroupResource == gr })
}

// undecodedErrorLocked names one of the objects that do not decode, nil where there is none.
func (l *Loader) undecodedErrorLocked() error {
	if len(l.undecoded) == 0 {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(l.undecoded), func(a, b undecodedKey) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.name, b.name))
	})
	return fmt.Errorf("loader: %d stored objects of the configuration are none of their kind, mend or delete them, first %s %q: %w",
		len(keys), keys[0].GroupResource, keys[0].name, l.undecoded[keys[0]])
}
