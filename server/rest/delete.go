package rest

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
)

// GracefulStrategy is a Strategy whose objects may end in their own time, such as pods.
type GracefulStrategy interface {
	// GracePeriod returns how long the object may take to end; graceful
	// is false when it is deleted at once. It is asked at the first request to delete.
	GracePeriod(obj *document.Document, opts *metav1.DeleteOptions) (seconds int64, graceful bool)
}

// Deletion is what a request to delete makes of an object.
type Deletion struct {
	// Object with its deletionTimestamp and grace period, where they change.
	Object *document.Document
	// Graceful: Object is to be stored, the object itself ends later.
	Graceful bool
	// Pending: it is being deleted already, and this request changes nothing.
	Pending bool
	// GracePeriodSeconds that is in force.
	GracePeriodSeconds int64
}

// BeforeDelete says what a request to delete obj, received at now, makes of it. It checks options,
// preconditions and ValidateDelete. All errors are APIStatus.
func BeforeDelete(ctx context.Context, strategy Strategy, obj *document.Document, opts *metav1.DeleteOptions, now time.Time) (Deletion, error) {
	if errs := metav1validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return Deletion{}, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	m := MetaOf(obj)
	if err := checkPreconditions(obj, opts.Preconditions); err != nil {
		return Deletion{}, err
	}
	errs, err := strategy.ValidateDelete(ctx, obj)
	if err != nil {
		return Deletion{}, err
	}
	if len(errs) > 0 {
		return Deletion{}, apierrors.NewInvalid(KindOf(obj).GroupKind(), m.Name(), errs)
	}

	graceful, ok := strategy.(GracefulStrategy)
	if !ok {
		return Deletion{Object: obj}, nil
	}
	requested := opts.GracePeriodSeconds
	if requested != nil && *requested < 0 {
		one := int64(1)
		requested = &one
	}
	if m.Deleting() {
		return shorten(obj, requested, now)
	}
	seconds, isGraceful := graceful.GracePeriod(obj, opts)
	if !isGraceful {
		return Deletion{Object: obj}, nil
	}
	if seconds < 0 {
		seconds = 1
	}
	e := obj.Edit().
		Set(Timestamp(now.Add(time.Duration(seconds)*time.Second)), "metadata", "deletionTimestamp").
		Set(seconds, "metadata", "deletionGracePeriodSeconds")
	if g := m.Generation(); g > 0 {
		e.Set(g+1, "metadata", "generation")
	}
	out, err := e.Document()
	return Deletion{Object: out, Graceful: true, GracePeriodSeconds: seconds}, err
}

// shorten is a request to delete what is being deleted: it can only make the grace period shorter.
func shorten(obj *document.Document, requested *int64, now time.Time) (Deletion, error) {
	m := MetaOf(obj)
	have, _ := m.DeletionGracePeriodSeconds()
	if have < 0 {
		have = 1
	}
	if have == 0 {
		return Deletion{Object: obj}, nil
	}
	if requested == nil || *requested >= have {
		return Deletion{Object: obj, Pending: true, GracePeriodSeconds: have}, nil
	}
	period := *requested
	was, _ := m.DeletionTimestamp()
	at := was.Add(time.Duration(period-have) * time.Second)
	if at.Before(now) {
		// The period is over already. Asked for grace, the object still gets the shortest there is,
		// so that whoever ends it sees the change.
		at = now
		if period != 0 {
			period = 1
		}
	}
	out, err := obj.Edit().
		Set(Timestamp(at), "metadata", "deletionTimestamp").
		Set(period, "metadata", "deletionGracePeriodSeconds").Document()
	return Deletion{Object: out, Graceful: true, GracePeriodSeconds: period}, err
}

// MarkDeleting sets the deletionTimestamp to now, or leaves an earlier one, and a grace
// period of 0. The first time it raises the generation, where there is one.
func MarkDeleting(obj *document.Document, now time.Time) (*document.Document, error) {
	m := MetaOf(obj)
	e := obj.Edit()
	if g := m.Generation(); g > 0 && !m.Deleting() {
		e.Set(g+1, "metadata", "generation")
	}
	if at, ok := m.DeletionTimestamp(); !ok || at.After(now) {
		e.Set(Timestamp(now), "metadata", "deletionTimestamp")
	}
	return e.Set(int64(0), "metadata", "deletionGracePeriodSeconds").Document()
}

func checkPreconditions(obj *document.Document, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	m, kind := MetaOf(obj), KindOf(obj)
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, m.Name(), fmt.Errorf(format, args...))
	}
	if p.UID != nil && *p.UID != m.UID() {
		return conflict("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, m.UID())
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.ResourceVersion() {
		return conflict("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, m.ResourceVersion())
	}
	return nil
}

// IsStatus reports whether err is or wraps an apierrors.APIStatus.
func IsStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}
