package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

var (
	// errMustMark: the object cannot go now, a deletionTimestamp is to be stored.
	errMustMark = errors.New("object is held")
	// errDeleteNow: nothing holds the object any more.
	errDeleteNow = errors.New("object is free")
	// errPending: it is being deleted already and stays as it is.
	errPending = errors.New("deletion is pending")
)

// deletePage is how many objects DeleteCollection lists at a time.
const deletePage = 1000

// Delete implements rest.GracefulDeleter. Everything that speaks against the deletion is checked on
// the live object, in the transaction that deletes it.
func (s *Store) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, opts *metav1.DeleteOptions) (*document.Document, bool, error) {
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if opts == nil {
		opts = metav1.NewDeleteOptions(0)
	}
	d := &deletion{store: s, validate: validate, opts: opts, dryRun: dryRun(opts.DryRun)}
	obj, deleted, err := d.run(ctx, key)
	return obj, deleted, s.failed("delete", name, err)
}

// deletion is one Delete under way.
type deletion struct {
	store    *Store
	validate rest.ValidateObjectFunc
	opts     *metav1.DeleteOptions
	dryRun   bool
	last     *document.Document // the live object of the latest attempt
}

func (d *deletion) run(ctx context.Context, key string) (*document.Document, bool, error) {
	for {
		row, err := d.delete(ctx, key)
		switch {
		case err == nil:
			obj, err := d.store.upgrade(document.FromCanonical(row.Value.Bytes()))
			return obj, true, err
		case errors.Is(err, errPending):
			return d.last, false, nil
		case !errors.Is(err, errMustMark):
			return nil, false, err
		}
		row, err = d.mark(ctx, key, false)
		if storage.CodeOf(err) == storage.ErrCodeTooLarge {
			row, err = d.mark(ctx, key, true) // or it could not be deleted at all
		}
		switch {
		case err == nil:
			return document.FromCanonical(row.Value.Bytes()), false, nil
		case errors.Is(err, errPending):
			return d.last, false, nil
		case !errors.Is(err, errDeleteNow):
			return nil, false, err
		}
	}
}

// mark stores that the object is to go, and gives up managedFields where told to: errDeleteNow, if it can go now.
func (d *deletion) mark(ctx context.Context, key string, withoutFields bool) (storage.Row, error) {
	return d.store.guaranteedUpdate(ctx, key, storage.UpdateOptions{}, d.dryRun, func(current storage.Row) ([]byte, uint64, error) {
		marked, err := d.judge(ctx, current)
		switch {
		case err != nil:
			return nil, 0, err
		case marked == nil:
			return nil, 0, errDeleteNow
		}
		if withoutFields {
			if marked, err = dropFields(marked); err != nil {
				return nil, 0, err
			}
		}
		if marked, err = d.store.downgrade(marked); err != nil {
			return nil, 0, err
		}
		return marked.Bytes(), d.store.cfg.TTLSeconds, d.admit(ctx)
	})
}

// delete removes the object unless it is held: errMustMark.
func (d *deletion) delete(ctx context.Context, key string) (storage.Row, error) {
	check := func(ctx context.Context, current storage.Row) error {
		marked, err := d.judge(ctx, current)
		switch {
		case err != nil:
			return err
		case marked != nil:
			return errMustMark
		}
		return d.admit(ctx)
	}
	st := d.store.cfg.Storage
	if !d.dryRun {
		return st.Delete(ctx, key, storage.DeleteOptions{Validate: check})
	}
	row, err := st.Get(ctx, key, storage.GetOptions{})
	if err != nil {
		return row, err
	}
	return row, check(ctx, row)
}

// demand returns in upstream's words which precondition does not hold.
func (d *deletion) demand(obj *document.Document, rv uint64) error {
	p := d.opts.Preconditions
	if p == nil {
		return nil
	}
	var text string
	meta := rest.MetaOf(obj)
	current := storage.FormatResourceVersion(rv)
	switch {
	case p.UID != nil && *p.UID != meta.UID():
		text = fmt.Sprintf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, meta.UID())
	case p.ResourceVersion != nil && *p.ResourceVersion != current:
		text = fmt.Sprintf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", *p.ResourceVersion, current)
	default:
		return nil
	}
	kind := schema.GroupResource{Group: d.store.cfg.Resource.Group, Resource: obj.Get("kind").String()}
	return apierrors.NewConflict(kind, meta.Name(), errors.New(text))
}

// judge returns what is to be stored instead of deleting current, nil when nothing holds it.
func (d *deletion) judge(ctx context.Context, current storage.Row) (*document.Document, error) {
	s := d.store
	obj, err := s.read(current)
	if err != nil {
		return nil, err
	}
	d.last = obj
	if err := d.demand(obj, current.ResourceVersion); err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	plan, err := rest.BeforeDelete(ctx, s.cfg.Strategy, obj, d.opts, now)
	if err != nil {
		return nil, err
	}
	if plan.Pending {
		return nil, errPending
	}
	obj = plan.Object
	had := rest.MetaOf(obj).Finalizers()
	finalizers := s.deletionFinalizers(had, d.opts)
	if !sameSet(had, finalizers) {
		if obj, err = setFinalizers(obj, finalizers); err != nil {
			return nil, err
		}
	}
	switch {
	case plan.Graceful && plan.GracePeriodSeconds > 0:
		return obj, nil
	case len(finalizers) > 0:
		return rest.MarkDeleting(obj, now)
	}
	return nil, nil
}

// admit is validating admission for the object that judge saw last.
func (d *deletion) admit(ctx context.Context) error {
	if d.validate == nil {
		return nil
	}
	return d.validate(ctx, d.last)
}

// deletionFinalizers returns the finalizers with which an object waits for what opts want to become of
// its dependents. An explicit wish wins over one that the object carries.
func (s *Store) deletionFinalizers(had []string, opts *metav1.DeleteOptions) []string {
	if s.cfg.WithoutGarbageCollection {
		return had
	}
	var want string
	switch {
	case opts.OrphanDependents != nil: //nolint:staticcheck // old clients send it
		if *opts.OrphanDependents { //nolint:staticcheck // old clients send it
			want = metav1.FinalizerOrphanDependents
		}
	case opts.PropagationPolicy != nil:
		switch *opts.PropagationPolicy {
		case metav1.DeletePropagationOrphan:
			want = metav1.FinalizerOrphanDependents
		case metav1.DeletePropagationForeground:
			want = metav1.FinalizerDeleteDependents
		}
	default:
		return had
	}
	var out []string
	for _, f := range had {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			out = append(out, f)
		}
	}
	if want != "" {
		out = append(out, want)
	}
	return out
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// dropFields gives up managedFields.
func dropFields(obj *document.Document) (*document.Document, error) {
	return obj.Edit().Delete("metadata", "managedFields").Document()
}

func setFinalizers(obj *document.Document, finalizers []string) (*document.Document, error) {
	if len(finalizers) == 0 {
		return obj.Edit().Delete("metadata", "finalizers").Document()
	}
	list := make([]any, len(finalizers))
	for i, f := range finalizers {
		list[i] = f
	}
	return obj.Edit().Set(list, "metadata", "finalizers").Document()
}

// DeleteCollection implements rest.CollectionDeleter. It is not atomic: an error leaves
// deleted what was deleted before. It returns the objects that the selectors chose, as
// they were.
func (s *Store) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, opts *metav1.DeleteOptions, list *internalversion.ListOptions) (*rest.List, error) {
	o := internalversion.ListOptions{}
	if list != nil {
		o = *list
	}
	onePage := o.Limit > 0
	if !onePage {
		o.Limit = deletePage
	}
	var all *rest.List
	for {
		page, err := s.List(ctx, &o)
		if apierrors.IsResourceExpired(err) && all != nil {
			// The first page's revision is compacted. What is left is listed anew.
			o.Continue = ""
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, obj := range page.Items {
			m := rest.MetaOf(obj)
			in := rest.Each(ctx)
			if s.cfg.Strategy.NamespaceScoped() {
				in = request.WithNamespace(in, m.Namespace())
			}
			if _, _, err := s.Delete(in, m.Name(), validate, opts.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
		}
		if onePage {
			return page, nil
		}
		if all == nil {
			all = page
		} else {
			all.Items = append(all.Items, page.Items...)
		}
		if o.Continue = page.Continue; o.Continue == "" {
			all.Continue, all.RemainingItemCount = "", nil
			return all, nil
		}
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
}
