package endpoints

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// update serves PUT.
func (s *server) update(w http.ResponseWriter, req *http.Request, sc *scope) error {
	updater, ok := sc.storage.(rest.Updater)
	if !ok {
		return sc.errNotSupported("update")
	}
	ctx, cancel := context.WithTimeout(sc.context(req.Context()), s.WriteTimeout)
	defer cancel()
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	opts, err := updateOptions(req)
	if err != nil {
		return err
	}
	obj, err := s.decodeBody(w, req, sc, opts.FieldValidation)
	if err != nil {
		return err
	}
	sc.auditObject(ctx, obj)
	if obj, err = sc.ensureNamespace(obj); err != nil {
		return err
	}
	if err = sc.checkName(obj); err != nil {
		return err
	}
	if obj, err = dedupOwners(ctx, obj, duplicateOwners); err != nil {
		return err
	}
	if obj, err = sc.defaults(ctx, obj); err != nil {
		return err
	}
	sc.auditObject(ctx, obj)
	u, err := s.newUpdate(req, sc, opts)
	if err != nil {
		return err
	}
	u.preconditions = uidPrecondition(obj)
	u.compute = func(ctx context.Context, live *document.Document) (*document.Document, error) {
		return sc.own(ctx, live, obj, u.manager)
	}
	result, created, err := u.run(ctx, updater, false, opts)
	if err != nil {
		return err
	}
	return s.respond(ctx, w, req, sc, out, updatedCode(created), result)
}

// updatedCode is the code of a PUT or PATCH.
func updatedCode(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}

// uidPrecondition holds an update to the object that it names by uid.
func uidPrecondition(obj *document.Document) *metav1.Preconditions {
	uid := types.UID(obj.Get("metadata", "uid").String())
	if uid == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &uid}
}

// updateInfo is a rest.UpdatedObjectInfo: what a PUT or PATCH makes of the live
// object, mutating admission included. It is computed anew for every live object.
type updateInfo struct {
	server        *server
	scope         *scope
	path          string
	manager       string
	preconditions *metav1.Preconditions
	// compute gives the wanted object with its managedFields; both are of the version served.
	compute func(ctx context.Context, live *document.Document) (*document.Document, error)

	onCreate, onUpdate admission.Attributes
	// dropFields gives up managedFields.
	dropFields bool
}

var _ rest.UpdatedObjectInfo = (*updateInfo)(nil)

// newUpdate prepares an updateInfo without its compute.
func (s *server) newUpdate(req *http.Request, sc *scope, opts *metav1.UpdateOptions) (*updateInfo, error) {
	u := &updateInfo{
		server:  s,
		scope:   sc,
		path:    req.URL.Path,
		manager: managerOf(opts.FieldManager, req.UserAgent()),
	}
	var err error
	if u.onCreate, err = sc.attributes(req.Context(), admission.Create, updateToCreate(opts), opts.DryRun); err != nil {
		return nil, err
	}
	u.onUpdate, err = sc.attributes(req.Context(), admission.Update, opts, opts.DryRun)
	return u, err
}

// Preconditions implements rest.UpdatedObjectInfo.
func (u *updateInfo) Preconditions() *metav1.Preconditions { return u.preconditions }

// UpdatedObject implements rest.UpdatedObjectInfo.
func (u *updateInfo) UpdatedObject(ctx context.Context, old *document.Document) (*document.Document, error) {
	live, err := u.scope.fromStored(ctx, old)
	if err != nil {
		return nil, err
	}
	obj, err := u.compute(ctx, live)
	if err != nil {
		return nil, err
	}
	attrs := u.onUpdate
	if live == nil {
		attrs = u.onCreate
	}
	if obj, err = u.server.admit(ctx, u.scope, attrs, obj, live); err != nil {
		return nil, err
	}
	if u.dropFields {
		if obj, err = dropFields(obj); err != nil {
			return nil, err
		}
	}
	return u.scope.toStored(ctx, obj)
}

// run stores the update. An apply does not give up managedFields: they are what it is about.
func (u *updateInfo) run(ctx context.Context, updater rest.Updater, apply bool, opts *metav1.UpdateOptions) (obj *document.Document, created bool, err error) {
	err = withoutFields(func(drop bool) error {
		if drop && apply {
			return err
		}
		u.dropFields = drop
		obj, created, err = updater.Update(ctx, u.scope.name, u, u.validateCreate(), u.validateUpdate(), apply, opts)
		return err
	})
	return obj, created, err
}

func (u *updateInfo) validateCreate() rest.ValidateObjectFunc {
	return u.server.authorizeCreate(u.scope, u.path, u.server.validateCreate(u.scope, u.onCreate))
}

func (u *updateInfo) validateUpdate() rest.ValidateObjectUpdateFunc {
	return u.server.validateUpdate(u.scope, u.onUpdate)
}

// newNotFound is the 404 for the object of the path.
func (sc *scope) newNotFound() error {
	return apierrors.NewNotFound(sc.gvr.GroupResource(), sc.name)
}
