package registry

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// List implements rest.Lister.
func (s *Store) List(ctx context.Context, opts *internalversion.ListOptions) (*rest.List, error) {
	key, o, err := s.selection(ctx, opts)
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Storage.GetList(ctx, key, o)
	if err != nil {
		return nil, s.failed("list", "", err)
	}
	return s.listed(list)
}

// ListReadable implements rest.ReadableLister.
func (s *Store) ListReadable(ctx context.Context) (*rest.List, error) {
	key, o, err := s.selection(ctx, nil)
	if err != nil {
		return nil, err
	}
	list, err := s.cfg.Storage.GetList(ctx, key, o)
	var unreadable *storage.Error
	if err != nil && !(errors.As(err, &unreadable) && unreadable.Code == storage.ErrCodeCorruptObj &&
		unreadable.Aborted == nil && list.ResourceVersion > 0) {
		return nil, s.failed("list", "", err)
	}
	return s.listed(list)
}

// listed makes a list of what storage has listed.
func (s *Store) listed(list storage.List) (_ *rest.List, err error) {
	items := document.FromAllPieces(len(list.Rows), func(i int) document.Pieces { return &list.Rows[i].Value })
	for i, row := range list.Rows {
		if items[i], err = s.current(row, func() *document.Document { return items[i] }); err != nil {
			return nil, err
		}
	}
	return &rest.List{
		Items:              items,
		ResourceVersion:    storage.FormatResourceVersion(list.ResourceVersion),
		Continue:           list.Continue,
		RemainingItemCount: list.RemainingItemCount,
	}, nil
}

// selection returns the key and the options of storage for a list or a watch. Selectors on
// metadata.namespace and metadata.name make the key narrower.
func (s *Store) selection(ctx context.Context, opts *internalversion.ListOptions) (string, storage.ListOptions, error) {
	if opts == nil {
		opts = &internalversion.ListOptions{}
	}
	o := storage.ListOptions{
		ResourceVersion:      opts.ResourceVersion,
		ResourceVersionMatch: opts.ResourceVersionMatch,
		Recursive:            true,
		SendInitialEvents:    opts.SendInitialEvents,
		Progress:             opts.AllowWatchBookmarks,
		Predicate: storage.SelectionPredicate{
			Label: labels.Everything(), Field: fields.Everything(), GetAttrs: s.attrs,
			Limit: opts.Limit, Continue: opts.Continue, AllowWatchBookmarks: opts.AllowWatchBookmarks,
		},
	}
	if opts.LabelSelector != nil {
		o.Predicate.Label = opts.LabelSelector
	}
	namespace, _ := request.NamespaceFrom(ctx)
	if opts.FieldSelector != nil {
		o.Predicate.Field = opts.FieldSelector
		for _, r := range opts.FieldSelector.Requirements() {
			if !slices.Contains(s.selectable, r.Field) {
				return "", o, apierrors.NewBadRequest("field label not supported: " + r.Field)
			}
		}
		if ns, ok := opts.FieldSelector.RequiresExactMatch("metadata.namespace"); ok && namespace == "" && len(validation.ValidateNamespaceName(ns, false)) == 0 {
			namespace = ns
		}
	}
	key, err := s.root(namespace)
	if err != nil {
		return "", o, err
	}
	if name, ok := o.Predicate.MatchesSingleName(); ok {
		if one, err := s.key(request.WithNamespace(ctx, namespace), name); err == nil {
			key, o.Recursive = one, false
		}
	}
	return key, o, nil
}
