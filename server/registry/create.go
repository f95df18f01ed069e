package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// generateNameAttempts is how many names are tried for a generateName: enough for a million
// objects of one with one failure in a thousand.
const generateNameAttempts = 8

// Create implements rest.Creater. validate sees the object as it will be stored. A generated
// name that is taken is tried again with another one.
func (s *Store) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	m := rest.MetaOf(obj)
	attempts := 1
	if m.Name() == "" && m.GenerateName() != "" {
		attempts = generateNameAttempts
	}
	for {
		out, err := s.create(ctx, obj, validate, opts)
		if attempts--; err == nil || attempts <= 0 || !apierrors.IsAlreadyExists(err) {
			return out, err
		}
	}
}

func (s *Store) create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	obj, err := rest.Initialize(ctx, s.cfg.Strategy, obj, s.cfg.Now())
	if err != nil {
		return nil, s.failed("create", "", err)
	}
	if obj, err = s.newObject(ctx, obj, validate); err != nil {
		return nil, err
	}
	name := rest.MetaOf(obj).Name()
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, err
	}
	if opts != nil && dryRun(opts.DryRun) {
		row, err := s.cfg.Storage.Get(ctx, key, storage.GetOptions{IgnoreNotFound: true})
		switch {
		case err != nil:
			return nil, s.failed("create", name, err)
		case !row.Value.IsZero():
			return nil, s.alreadyExists(ctx, key, obj)
		}
		return obj, nil
	}
	if err := checkNew(obj); err != nil {
		return nil, err
	}
	stored, err := s.downgrade(obj)
	if err != nil {
		return nil, err
	}
	row, err := s.cfg.Storage.Create(ctx, key, stored.Bytes(), s.cfg.TTLSeconds)
	if storage.CodeOf(err) == storage.ErrCodeKeyExists {
		return nil, s.alreadyExists(ctx, key, obj)
	}
	if err != nil {
		return nil, s.failed("create", name, err)
	}
	return document.FromCanonical(row.Value.Bytes()), nil
}

// checkNew refuses an object that has been stored before, as its resourceVersion says. It is upstream's storage that does: what is
// wrong with the object otherwise is said first, a dry run does not come to it, and what is no number is taken for none. Upstream
// answers 500.
func checkNew(obj *document.Document) error {
	if rv, err := strconv.ParseUint(rest.MetaOf(obj).ResourceVersion(), 10, 64); err == nil && rv != 0 {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	return nil
}

// newObject is what comes between a new object with system fields and storage.
func (s *Store) newObject(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc) (*document.Document, error) {
	obj, err := rest.BeforeCreate(ctx, s.cfg.Strategy, obj)
	if err != nil {
		return nil, s.failed("create", "", err)
	}
	if validate != nil {
		if err := validate(ctx, obj); err != nil {
			return nil, s.failed("create", "", err)
		}
	}
	return obj, nil
}

// alreadyExists is the error for a key that is taken. It says so where the object that has
// it is being deleted, since then waiting helps.
func (s *Store) alreadyExists(ctx context.Context, key string, obj *document.Document) error {
	m := rest.MetaOf(obj)
	out := apierrors.NewAlreadyExists(s.cfg.Resource, m.Name())
	if m.GenerateName() != "" {
		out = apierrors.NewGenerateNameConflict(s.cfg.Resource, m.Name(), 1)
	}
	row, err := s.cfg.Storage.Get(ctx, key, storage.GetOptions{})
	if err == nil && rest.MetaOf(document.FromCanonical(row.Value.Bytes())).Deleting() {
		out.ErrStatus.Message = fmt.Sprintf("object is being deleted: %s", out.ErrStatus.Message)
	}
	return out
}

// errNoObject: an UpdatedObjectInfo returned neither an object nor an error.
var errNoObject = errors.New("update computed no object")
