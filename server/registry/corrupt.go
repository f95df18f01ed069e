package registry

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

var (
	_ rest.CorruptObjectDeleter = (*Store)(nil)
	_ rest.CorruptObjectDeleter = (*Namespaces)(nil)
)

// errOnlyTried ends a deletion that was to be tried only.
var errOnlyTried = errors.New("dry run")

// DeleteCorrupt implements rest.CorruptObjectDeleter. A dry run finds out whether the object is one that
// cannot be read.
func (s *Store) DeleteCorrupt(ctx context.Context, name string, opts *metav1.DeleteOptions) error {
	key, err := s.key(ctx, name)
	if err != nil {
		return err
	}
	how := storage.DeleteOptions{Unreadable: true}
	if opts != nil && dryRun(opts.DryRun) {
		how.Validate = func(context.Context, storage.Row) error { return errOnlyTried }
	}
	if _, err = s.cfg.Storage.Delete(ctx, key, how); errors.Is(err, errOnlyTried) {
		return nil
	}
	return s.failed("delete", name, err)
}

// DeleteCorrupt implements rest.CorruptObjectDeleter. What is in the namespace stays.
func (n *Namespaces) DeleteCorrupt(ctx context.Context, name string, opts *metav1.DeleteOptions) error {
	return n.store.DeleteCorrupt(ctx, name, opts)
}
