package endpoints

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
)

const (
	duplicateOwners = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s"

	duplicateOwnersAdmitted = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %s"
)

// wipeSystemFields removes the metadata that only the server sets, from a new object.
func wipeSystemFields(doc *document.Document) (*document.Document, error) {
	meta := doc.Get("metadata")
	var e *document.Edit
	for _, name := range []string{"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		if meta.Get(name).Exists() {
			if e == nil {
				e = doc.Edit()
			}
			e.Delete("metadata", name)
		}
	}
	if e == nil {
		return doc, nil
	}
	return e.Document()
}

// ensureNamespace makes the object's namespace that of the request.
func (sc *scope) ensureNamespace(doc *document.Document) (*document.Document, error) {
	meta := doc.Get("metadata")
	if meta.Exists() && meta.Kind() != document.Object && meta.Kind() != document.Null {
		return nil, apierrors.NewBadRequest("metadata of the object is no JSON object")
	}
	switch have := meta.Get("namespace").String(); {
	case have == sc.namespace:
		return doc, nil
	case have == "":
		return doc.Edit().Set(sc.namespace, "metadata", "namespace").Document()
	case sc.namespace == "":
		return doc.Edit().Delete("metadata", "namespace").Document()
	default:
		return nil, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
}

// checkName compares the object's name with the path.
func (sc *scope) checkName(doc *document.Document) error {
	switch have := doc.Get("metadata", "name").String(); have {
	case sc.name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", sc.name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", have, sc.name))
	}
}

// dedupOwners drops owner references that repeat another one, with a warning.
func dedupOwners(ctx context.Context, doc *document.Document, format string) (*document.Document, error) {
	refs := doc.Get("metadata", "ownerReferences")
	if refs.Len() < 2 {
		return doc, nil
	}
	seen := make(map[string]bool, refs.Len())
	var kept []any
	var repeated []string
	for _, ref := range refs.Elements() {
		if raw := string(ref.Raw()); seen[raw] {
			repeated = append(repeated, ref.Get("uid").String())
		} else {
			seen[raw] = true
			kept = append(kept, ref.Interface())
		}
	}
	if len(repeated) == 0 {
		return doc, nil
	}
	warning.AddWarning(ctx, "", fmt.Sprintf(format, strings.Join(repeated, ", ")))
	return doc.Edit().Set(kept, "metadata", "ownerReferences").Document()
}

// managerOf returns the field manager of a write: the parameter, else the first
// part of the user agent, cut to what is valid.
func managerOf(param, userAgent string) string {
	if param != "" {
		return param
	}
	product, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range product {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
