package schema

import (
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"weir.dev/weir/abi/document"
)

// Coerce implements rest.Schema: metadata must have the types of an ObjectMeta and keeps
// only what an ObjectMeta has.
func (k *Kind) Coerce(obj *document.Document) (*document.Document, error) {
	root := obj.Root()
	if root.Kind() != document.Object {
		return nil, apierrors.NewBadRequest("the request body must be a JSON object")
	}
	meta := root.Get("metadata")
	if !meta.Exists() || isPlainMeta(meta) {
		return obj, nil
	}
	m, err := document.FromValue(map[string]any{"metadata": meta.Interface()})
	if err != nil {
		return nil, err
	}
	decoded, err := m.Map()
	if err != nil {
		return nil, err
	}
	typed, found, err := objectmeta.GetObjectMeta(decoded, false)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !found {
		return obj, nil
	}
	if err := objectmeta.SetObjectMeta(decoded, typed); err != nil {
		return nil, err
	}
	return obj.Edit().Set(decoded["metadata"], "metadata").Document()
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
