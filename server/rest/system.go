package rest

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"weir.dev/weir/abi/document"
)

// A generated name is cut to maxGeneratedBase characters, to which randomLength are added: 63, the
// length of a DNS label.
const (
	maxNameLength    = 63
	randomLength     = 5
	maxGeneratedBase = maxNameLength - randomLength
)

// GenerateName returns base, shortened where it must be, with five random characters.
func GenerateName(base string) string {
	if len(base) > maxGeneratedBase {
		base = strings.ToValidUTF8(base[:maxGeneratedBase], "") // without a part of a character
	}
	return base + rand.String(randomLength)
}

// Initialize gives a new object its system fields, in one edit: a new uid, creationTimestamp
// from now, the namespace of the request, the first generation, and a name where there is only a
// generateName. It removes deletionTimestamp, deletionGracePeriodSeconds and selfLink. An object
// that says another namespace is a BadRequest.
func Initialize(ctx context.Context, strategy Strategy, obj *document.Document, now time.Time) (*document.Document, error) {
	if err := CheckMetadata(obj); err != nil {
		return nil, err
	}
	m := MetaOf(obj)
	namespace := expectedNamespace(ctx, strategy)
	if err := sameNamespace(m.Namespace(), namespace); err != nil {
		return nil, err
	}
	e := obj.Edit().
		Set(Timestamp(now), "metadata", "creationTimestamp").
		Set(string(uuid.NewUUID()), "metadata", "uid").
		Delete("metadata", "deletionTimestamp").
		Delete("metadata", "deletionGracePeriodSeconds").
		Delete("metadata", "selfLink")
	if base := m.GenerateName(); base != "" && m.Name() == "" {
		e.Set(GenerateName(base), "metadata", "name")
	}
	if namespace != "" {
		e.Set(namespace, "metadata", "namespace")
	} else {
		e.Delete("metadata", "namespace")
	}
	if g, ok := strategy.(Generationer); ok {
		if n := g.Generation(obj, nil); n != 0 {
			e.Set(n, "metadata", "generation")
		} else {
			e.Delete("metadata", "generation")
		}
	}
	return e.Document()
}

// CheckMetadata returns a BadRequest for an object whose metadata cannot be edited, since it
// is no JSON object.
func CheckMetadata(obj *document.Document) error {
	switch obj.Get("metadata").Kind() {
	case document.Object, document.Absent, document.Null:
		if obj.Root().Kind() == document.Object {
			return nil
		}
	}
	return apierrors.NewBadRequest("the object or its metadata is no JSON object")
}

// EnsureNamespace gives obj the namespace of the request, "" for a cluster-scoped
// resource. An object that says another one is a BadRequest.
func EnsureNamespace(obj *document.Document, namespace string) (*document.Document, error) {
	have := MetaOf(obj).Namespace()
	if have == namespace {
		return obj, nil
	}
	if err := sameNamespace(have, namespace); err != nil {
		return nil, err
	}
	if namespace == "" {
		return obj.Edit().Delete("metadata", "namespace").Document()
	}
	return obj.Edit().Set(namespace, "metadata", "namespace").Document()
}

func sameNamespace(have, want string) error {
	if have == "" || want == "" || have == want {
		return nil
	}
	return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
}
