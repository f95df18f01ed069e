package rest

import (
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
		base = base[:maxGeneratedBase]
	}
	return base + rand.String(randomLength)
}

// WipeSystemFields removes from a new object what only the server sets: uid,
// creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds and selfLink.
func WipeSystemFields(obj *document.Document) (*document.Document, error) {
	return wipe(obj.Edit()).Document()
}

// FillSystemFields is WipeSystemFields, then a new uid, creationTimestamp from now, and a name
// where there is only a generateName.
func FillSystemFields(obj *document.Document, now time.Time) (*document.Document, error) {
	m := MetaOf(obj)
	e := wipe(obj.Edit()).
		Set(Timestamp(now), "metadata", "creationTimestamp").
		Set(string(uuid.NewUUID()), "metadata", "uid")
	if base := m.GenerateName(); base != "" && m.Name() == "" {
		e.Set(GenerateName(base), "metadata", "name")
	}
	return e.Document()
}

func wipe(e *document.Edit) *document.Edit {
	return e.Delete("metadata", "uid").
		Delete("metadata", "creationTimestamp").
		Delete("metadata", "deletionTimestamp").
		Delete("metadata", "deletionGracePeriodSeconds").
		Delete("metadata", "selfLink")
}

// EnsureNamespace gives obj the namespace of the request, "" for a cluster-scoped
// resource. An object that says another one is a BadRequest.
func EnsureNamespace(obj *document.Document, namespace string) (*document.Document, error) {
	switch have := MetaOf(obj).Namespace(); {
	case have == namespace:
		return obj, nil
	case namespace == "":
		return obj.Edit().Delete("metadata", "namespace").Document()
	case have == "":
		return obj.Edit().Set(namespace, "metadata", "namespace").Document()
	default:
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
}
