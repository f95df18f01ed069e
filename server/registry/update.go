package registry

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// errEmptiedFinalizers ends an update that removed the last finalizer of an object whose
// deletion was requested: the object is deleted instead.
var errEmptiedFinalizers = errors.New("last finalizer removed")

// Update implements rest.Updater. The validate functions see the object as it will be stored.
// An update that takes the last finalizer from an object being deleted deletes
// it and returns it as the update left it.
func (s *Store) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, validateCreate rest.ValidateObjectFunc,
	validateUpdate rest.ValidateObjectUpdateFunc, forceAllowCreate bool, opts *metav1.UpdateOptions,
) (*document.Document, bool, error) {
	u := &update{
		store: s, strategy: s.cfg.Strategy, name: name, info: info,
		validateCreate: validateCreate, validateUpdate: validateUpdate,
		allowCreate: s.cfg.Strategy.AllowCreateOnUpdate() || forceAllowCreate,
		dryRun:      opts != nil && dryRun(opts.DryRun),
	}
	return u.run(ctx)
}

// update is one Update under way.
type update struct {
	store          *Store
	strategy       rest.Strategy
	name           string
	info           rest.UpdatedObjectInfo
	validateCreate rest.ValidateObjectFunc
	validateUpdate rest.ValidateObjectUpdateFunc
	allowCreate    bool
	dryRun         bool

	// of the latest attempt
	creating bool
	deleted  *document.Document // what errEmptiedFinalizers is about
}

func (u *update) run(ctx context.Context) (*document.Document, bool, error) {
	s := u.store
	key, err := s.key(ctx, u.name)
	if err != nil {
		return nil, false, err
	}
	opts := storage.UpdateOptions{IgnoreNotFound: u.allowCreate}
	if p := u.info.Preconditions(); p != nil {
		opts.Preconditions = &storage.Preconditions{UID: p.UID, ResourceVersion: p.ResourceVersion}
	}
	for {
		row, err := s.guaranteedUpdate(ctx, key, opts, u.dryRun, func(current storage.Row) ([]byte, uint64, error) {
			obj, err := u.next(ctx, current)
			if err != nil {
				return nil, 0, err
			}
			if obj, err = s.downgrade(obj); err != nil {
				return nil, 0, err
			}
			return obj.Bytes(), s.cfg.TTLSeconds, nil
		})
		switch {
		case err == nil:
			return document.FromCanonical(row.Value.Bytes()), u.creating, nil
		case !errors.Is(err, errEmptiedFinalizers):
			verb := "update"
			if u.creating {
				verb = "create"
			}
			return nil, false, s.failed(verb, u.name, err)
		}
		gone, err := u.deleteEmptied(ctx, key)
		if err != nil {
			return nil, false, err
		}
		if gone {
			return u.deleted, false, nil
		}
		// Somebody changed the object in between: it is another update now.
	}
}

// deleteEmptied deletes the object that has lost its last finalizer, if it is still
// the one that the update saw.
func (u *update) deleteEmptied(ctx context.Context, key string) (bool, error) {
	if u.dryRun {
		return true, nil
	}
	rv := rest.MetaOf(u.deleted).ResourceVersion()
	_, err := u.store.cfg.Storage.Delete(ctx, key, storage.DeleteOptions{Preconditions: &storage.Preconditions{ResourceVersion: &rv}})
	switch storage.CodeOf(err) {
	case storage.ErrCodeResourceVersionConflicts, storage.ErrCodeInvalidObj:
		return false, nil
	case storage.ErrCodeKeyNotFound:
		return true, nil
	}
	return err == nil, u.store.failed("delete", u.name, err)
}

// next computes what replaces current.
func (u *update) next(ctx context.Context, current storage.Row) (*document.Document, error) {
	s := u.store
	u.creating = current.Value.IsZero()
	if u.creating {
		if !u.allowCreate {
			return nil, apierrors.NewNotFound(s.cfg.Resource, u.name)
		}
		return u.create(ctx)
	}
	old, err := s.read(current)
	if err != nil {
		return nil, err
	}
	obj, err := u.info.UpdatedObject(ctx, old)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, errNoObject
	}
	if err = rest.CheckMetadata(obj); err != nil {
		return nil, err
	}
	if obj, err = u.resourceVersion(obj, current); err != nil {
		return nil, err
	}
	if obj, err = rest.BeforeUpdate(ctx, u.strategy, obj, old); err != nil {
		return nil, err
	}
	if obj, err = ignoreTimestamps(obj, old); err != nil {
		return nil, err
	}
	if u.validateUpdate != nil {
		if err := u.validateUpdate(ctx, obj, old); err != nil {
			return nil, err
		}
	}
	if s.deletesDuringUpdate(obj, old) {
		u.deleted = obj
		return nil, errEmptiedFinalizers
	}
	return obj, nil
}

// create is an update of an object that does not exist.
func (u *update) create(ctx context.Context) (*document.Document, error) {
	s := u.store
	obj, err := u.info.UpdatedObject(ctx, nil)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return nil, errNoObject
	}
	if err = rest.CheckMetadata(obj); err != nil {
		return nil, err
	}
	if have := rest.MetaOf(obj).Name(); have != u.name {
		if have != "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", have, u.name))
		}
		if obj, err = obj.Edit().Set(u.name, "metadata", "name").Document(); err != nil {
			return nil, err
		}
	}
	if obj, err = obj.Edit().Delete("metadata", "resourceVersion").Document(); err != nil {
		return nil, err
	}
	if obj, err = rest.Initialize(ctx, s.cfg.Strategy, obj, s.cfg.Now()); err != nil {
		return nil, err
	}
	return s.newObject(ctx, obj, u.validateCreate)
}

// resourceVersion checks the one that obj names against the live object and returns obj
// with that of the live object.
func (u *update) resourceVersion(obj *document.Document, current storage.Row) (*document.Document, error) {
	gr := u.store.cfg.Resource
	text := rest.MetaOf(obj).ResourceVersion()
	rv, err := storage.ParseResourceVersion(text)
	switch {
	case err != nil:
		return nil, err
	case rv == 0 && !u.strategy.AllowUnconditionalUpdate():
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, u.name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), rv, "must be specified for an update"),
		})
	case rv != 0 && rv != current.ResourceVersion:
		return nil, apierrors.NewConflict(gr, u.name, errors.New(optimisticLockText))
	}
	if live := storage.FormatResourceVersion(current.ResourceVersion); text != live {
		return obj.Edit().Set(live, "metadata", "resourceVersion").Document()
	}
	return obj, nil
}

// deletesDuringUpdate reports that nothing holds the object any more.
func (s *Store) deletesDuringUpdate(obj, old *document.Document) bool {
	m, o := rest.MetaOf(obj), rest.MetaOf(old)
	if m.HasFinalizers() || !o.Deleting() {
		return false
	}
	if grace, ok := o.DeletionGracePeriodSeconds(); ok && grace != 0 {
		return false
	}
	return s.cfg.DeleteDuringUpdate == nil || s.cfg.DeleteDuringUpdate(obj)
}

// guaranteedUpdate is that of storage, or the same without the write.
func (s *Store) guaranteedUpdate(ctx context.Context, key string, opts storage.UpdateOptions, dry bool, fn storage.UpdateFunc) (storage.Row, error) {
	if !dry {
		return s.cfg.Storage.GuaranteedUpdate(ctx, key, opts, fn)
	}
	row, err := s.cfg.Storage.Get(ctx, key, storage.GetOptions{IgnoreNotFound: opts.IgnoreNotFound})
	if err != nil {
		return storage.Row{}, err
	}
	if err := opts.Preconditions.Check(key, row); err != nil {
		return storage.Row{}, err
	}
	value, _, err := fn(row)
	return storage.Row{Key: key, Value: storage.NewText(value), ResourceVersion: row.ResourceVersion}, err
}

// ignoreTimestamps returns old's managedFields in place of obj's when the two differ in their times
// only and nothing else changed, so that an update that changes nothing is not stored.
func ignoreTimestamps(obj, old *document.Document) (*document.Document, error) {
	now, was := obj.Get("metadata", "managedFields"), old.Get("metadata", "managedFields")
	if now.Len() == 0 || now.Len() != was.Len() || now.Equal(was) {
		return obj, nil
	}
	for i, entry := range now.Elements() {
		if !equalButTime(entry, was.Index(i)) {
			return obj, nil
		}
	}
	same, err := obj.Edit().Set(was, "metadata", "managedFields").Document()
	if err != nil || !same.Equal(old) {
		return obj, err
	}
	return same, nil
}

func equalButTime(a, b document.Value) bool {
	n := 0
	for name, v := range a.Members() {
		if name == "time" {
			continue
		}
		n++
		if !v.Equal(b.Get(name)) {
			return false
		}
	}
	for name := range b.Members() {
		if name != "time" {
			n--
		}
	}
	return n == 0
}
