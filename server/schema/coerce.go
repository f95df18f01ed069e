package schema

import (
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
)

// Coerce implements rest.Schema: metadata must have the types of an ObjectMeta. What an
// ObjectMeta does not have is for Prune to drop.
func (k *Kind) Coerce(obj *document.Document) (*document.Document, error) {
	root := obj.Root()
	if root.Kind() != document.Object {
		return nil, apierrors.NewBadRequest("the request body must be a JSON object")
	}
	meta := root.Get("metadata")
	if !meta.Exists() || isPlainMeta(meta) {
		return obj, nil
	}
	if _, _, err := objectmeta.GetObjectMeta(map[string]any{"metadata": meta.Interface()}, false); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return obj, nil
}

// pruneMeta returns obj with the metadata that an ObjectMeta has, and the paths of what else was in it.
func pruneMeta(obj *document.Document) (*document.Document, []string, error) {
	meta := obj.Get("metadata")
	if !meta.Exists() || isPlainMeta(meta) {
		return obj, nil, nil
	}
	m := map[string]any{"metadata": meta.Interface()}
	typed, _, unknown, err := objectmeta.GetObjectMetaWithOptions(m, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := objectmeta.SetObjectMeta(m, typed); err != nil {
		return nil, nil, fmt.Errorf("metadata: %w", err)
	}
	pruned, err := obj.Edit().Set(m["metadata"], "metadata").Document()
	return pruned, unknown, err
}

// isPlainMeta reports whether decoding meta into an ObjectMeta and encoding it again would
// change nothing. It may report false where nothing would change.
func isPlainMeta(meta document.Value) bool {
	if meta.Kind() != document.Object {
		return false
	}
	for name, v := range meta.Members() {
		switch name {
		case "name", "namespace", "generateName", "uid", "resourceVersion":
			if v.Kind() != document.String || v.String() == "" {
				return false
			}
		case "creationTimestamp", "deletionTimestamp":
			if !isTimestamp(v) {
				return false
			}
		case "generation", "deletionGracePeriodSeconds":
			if n, ok := v.Int(); !ok || (n == 0 && name == "generation") {
				return false
			}
		case "labels", "annotations":
			if v.Kind() != document.Object || v.Len() == 0 {
				return false
			}
			for _, text := range v.Members() {
				if text.Kind() != document.String {
					return false
				}
			}
		case "finalizers":
			if v.Kind() != document.Array || v.Len() == 0 {
				return false
			}
			for _, text := range v.Elements() {
				if text.Kind() != document.String {
					return false
				}
			}
		case "ownerReferences":
			if !areOwners(v) {
				return false
			}
		case "managedFields":
			if !areManagedFields(v) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func areOwners(v document.Value) bool {
	if v.Kind() != document.Array || v.Len() == 0 {
		return false
	}
	for _, owner := range v.Elements() {
		if owner.Kind() != document.Object {
			return false
		}
		required := 0
		for name, m := range owner.Members() {
			switch name {
			case "apiVersion", "kind", "name", "uid":
				if m.Kind() != document.String {
					return false
				}
				required++
			case "controller", "blockOwnerDeletion":
				if m.Kind() != document.Bool {
					return false
				}
			default:
				return false
			}
		}
		if required != 4 {
			return false
		}
	}
	return true
}

func areManagedFields(v document.Value) bool {
	if v.Kind() != document.Array || v.Len() == 0 {
		return false
	}
	for _, entry := range v.Elements() {
		if entry.Kind() != document.Object {
			return false
		}
		for name, m := range entry.Members() {
			switch name {
			case "manager", "operation", "apiVersion", "fieldsType", "subresource":
				if m.Kind() != document.String || m.String() == "" {
					return false
				}
			case "time":
				if !isTimestamp(m) {
					return false
				}
			case "fieldsV1":
				if m.Kind() != document.Object {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

// isTimestamp reports whether v is a time as metav1.Time spells it.
func isTimestamp(v document.Value) bool {
	if v.Kind() != document.String {
		return false
	}
	text := v.String()
	t, err := time.Parse(time.RFC3339, text)
	return err == nil && t.UTC().Format(time.RFC3339) == text
}
