package endpoints

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// create serves POST to a collection.
func (s *server) create(w http.ResponseWriter, req *http.Request, sc *scope) error {
	creater, ok := sc.storage.(rest.Creater)
	if !ok {
		return sc.errNotSupported("create")
	}
	return s.createWith(w, req, sc, creater.Create)
}

// createNamed serves POST to a subresource.
func (s *server) createNamed(w http.ResponseWriter, req *http.Request, sc *scope) error {
	creater, ok := sc.storage.(rest.NamedCreater)
	if !ok {
		return sc.errNotSupported("create")
	}
	return s.createWith(w, req, sc, func(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
		return creater.CreateNamed(ctx, sc.name, obj, validate, opts)
	})
}

type createFunc func(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error)

func (s *server) createWith(w http.ResponseWriter, req *http.Request, sc *scope, create createFunc) error {
	ctx, cancel := context.WithTimeout(sc.context(req.Context()), s.WriteTimeout)
	defer cancel()
	out, err := negotiateObject(req)
	if err != nil {
		return err
	}
	opts, err := createOptions(req)
	if err != nil {
		return err
	}
	obj, err := s.decodeBody(w, req, sc, opts.FieldValidation)
	if err != nil {
		return err
	}
	sc.auditObject(ctx, obj)
	if obj, err = wipeSystemFields(obj); err != nil {
		return err
	}
	if obj, err = sc.ensureNamespace(obj); err != nil {
		return err
	}
	if obj, err = dedupOwners(ctx, obj, duplicateOwners); err != nil {
		return err
	}
	if obj, err = sc.defaults(ctx, obj); err != nil {
		return err
	}
	sc.auditObject(ctx, obj)
	if obj, err = sc.own(ctx, nil, obj, managerOf(opts.FieldManager, req.UserAgent())); err != nil {
		return err
	}
	attrs, err := sc.attributes(ctx, admission.Create, opts, opts.DryRun)
	if err != nil {
		return err
	}
	if obj, err = s.admit(ctx, sc, attrs, obj, nil); err != nil {
		return err
	}
	if obj, err = sc.toStored(ctx, obj); err != nil {
		return err
	}
	var result *document.Document
	err = withoutFields(func(drop bool) error {
		stored := obj
		var err error
		if drop {
			if stored, err = dropFields(obj); err != nil {
				return err
			}
		}
		result, err = create(ctx, stored, s.validateCreate(sc, attrs), opts)
		return err
	})
	if err != nil {
		return err
	}
	return s.respond(ctx, w, req, sc, out, http.StatusCreated, result)
}
