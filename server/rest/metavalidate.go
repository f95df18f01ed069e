package rest

import (
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
)

// validateMeta says what is wrong with the metadata of a new object. Metadata in which everything
// is plainly right is not decoded.
func validateMeta(strategy Strategy, obj *document.Document) (field.ErrorList, error) {
	m := MetaOf(obj)
	if plainMeta(m, strategy) {
		return nil, nil
	}
	om, err := decodeMeta(m)
	if err != nil {
		return nil, err
	}
	return validation.ValidateObjectMeta(om, strategy.NamespaceScoped(), strategy.ValidateName, field.NewPath("metadata")), nil
}

// validateMetaUpdate says what is wrong with the metadata of an object that replaces old.
func validateMetaUpdate(strategy Strategy, obj, old *document.Document) (field.ErrorList, error) {
	m, o := MetaOf(obj), MetaOf(old)
	if plainMeta(m, strategy) && plainChange(m, o) {
		return nil, nil
	}
	om, err := decodeMeta(m)
	if err != nil {
		return nil, err
	}
	oldMeta, err := decodeMeta(o)
	if err != nil {
		return nil, fmt.Errorf("stored object %q: %w", o.Name(), err)
	}
	path := field.NewPath("metadata")
	errs := validation.ValidateObjectMeta(om, strategy.NamespaceScoped(), strategy.ValidateName, path)
	if o.Name() == m.Name() {
		// A stored name may be older than the rule that forbids it.
		errs = dropField(errs, "metadata.name")
	}
	return appendDistinct(errs, validation.ValidateObjectMetaUpdate(om, oldMeta, path)), nil
}

// appendDistinct keeps what both validations say from being said twice.
func appendDistinct(errs, more field.ErrorList) field.ErrorList {
next:
	for _, m := range more {
		for _, e := range errs {
			if e.Field == m.Field && e.Type == m.Type && e.Detail == m.Detail {
				continue next
			}
		}
		errs = append(errs, m)
	}
	return errs
}

func dropField(errs field.ErrorList, name string) field.ErrorList {
	var kept field.ErrorList
	for _, e := range errs {
		if e.Field != name {
			kept = append(kept, e)
		}
	}
	return kept
}

func decodeMeta(m Meta) (*metav1.ObjectMeta, error) {
	var om metav1.ObjectMeta
	if !m.v.Exists() {
		return &om, nil
	}
	if err := json.Unmarshal(m.v.Raw(), &om); err != nil {
		return nil, apierrors.NewBadRequest("metadata: " + err.Error())
	}
	return &om, nil
}

// plainChange reports that an update from o to m certainly keeps what is immutable.
func plainChange(m, o Meta) bool {
	for _, name := range [...]string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		if !m.v.Get(name).Equal(o.v.Get(name)) {
			return false
		}
	}
	if o.Deleting() && !m.v.Get("finalizers").Equal(o.v.Get("finalizers")) && m.HasFinalizers() {
		return false
	}
	return m.ResourceVersion() != "" && m.Generation() >= o.Generation()
}

// plainMeta reports that metadata is certainly valid. It knows the spellings nearly every object
// has, and leaves all others to the validation of apimachinery.
func plainMeta(m Meta, strategy Strategy) bool {
	if m.v.Kind() != document.Object {
		return false
	}
	var named, namespaced bool
	for member, v := range m.v.Members() {
		ok := false
		switch member {
		case "name":
			named = v.String() != ""
			ok = named && len(strategy.ValidateName(v.String(), false)) == 0
		case "generateName":
			ok = v.Kind() == document.String && (v.String() == "" || len(strategy.ValidateName(v.String(), true)) == 0)
		case "namespace":
			namespaced = true
			ok = strategy.NamespaceScoped() && plainLabel(v.String(), false)
		case "uid", "resourceVersion", "selfLink":
			ok = v.Kind() == document.String
		case "creationTimestamp", "deletionTimestamp":
			ok = plainTimestamp(v)
		case "generation", "deletionGracePeriodSeconds":
			n, isInt := v.Int()
			ok = isInt && n >= 0
		case "labels":
			ok = plainStrings(v, func(value string) bool { return value == "" || len(value) <= 63 && plainToken(value) })
		case "annotations":
			ok = plainStrings(v, func(value string) bool { return true }) && len(v.Raw()) <= validation.TotalAnnotationSizeLimitB
		case "finalizers":
			ok = v.Kind() == document.Array
			for _, f := range v.Elements() {
				ok = ok && plainQualified(f.String()) && f.String() != metav1.FinalizerDeleteDependents
			}
		case "managedFields":
			ok = plainManagedFields(v)
		case "ownerReferences":
			ok = plainOwners(v)
		}
		if !ok {
			return false
		}
	}
	return named && namespaced == strategy.NamespaceScoped()
}

func plainTimestamp(v document.Value) bool {
	s := v.String()
	if len(s) != len("2006-01-02T15:04:05Z") || s[19] != 'Z' {
		return false
	}
	t := metav1.Time{}
	return t.UnmarshalQueryParameter(s) == nil
}

func plainStrings(v document.Value, plainValue func(string) bool) bool {
	if v.Kind() != document.Object {
		return false
	}
	for k, e := range v.Members() {
		if e.Kind() != document.String || !plainQualified(k) || !plainValue(e.String()) {
			return false
		}
	}
	return true
}

func plainManagedFields(v document.Value) bool {
	if v.Kind() != document.Array {
		return false
	}
	for _, entry := range v.Elements() {
		if entry.Kind() != document.Object {
			return false
		}
		operation := false
		for member, e := range entry.Members() {
			ok := false
			switch member {
			case "operation":
				operation = true
				ok = e.String() == string(metav1.ManagedFieldsOperationApply) || e.String() == string(metav1.ManagedFieldsOperationUpdate)
			case "fieldsType":
				ok = e.String() == "FieldsV1"
			case "manager":
				ok = e.Kind() == document.String && len(e.String()) <= 128 && printable(e.String())
			case "subresource":
				ok = e.Kind() == document.String && len(e.String()) <= 256
			case "apiVersion":
				ok = e.Kind() == document.String
			case "time":
				ok = plainTimestamp(e)
			case "fieldsV1":
				ok = e.Kind() == document.Object
			}
			if !ok {
				return false
			}
		}
		if !operation {
			return false
		}
	}
	return true
}

// plainOwners reports that there is one owner at most, with all it must have.
func plainOwners(v document.Value) bool {
	if v.Kind() != document.Array || v.Len() > 1 {
		return false
	}
	for _, owner := range v.Elements() {
		if owner.Kind() != document.Object || owner.Get("kind").String() == "Event" {
			return false
		}
		for _, name := range [...]string{"kind", "name", "uid"} {
			if owner.Get(name).String() == "" {
				return false
			}
		}
		group, version, found := strings.Cut(owner.Get("apiVersion").String(), "/")
		if group == "" || found && (version == "" || strings.Contains(version, "/")) {
			return false
		}
		for _, name := range [...]string{"controller", "blockOwnerDeletion"} {
			if k := owner.Get(name).Kind(); k != document.Bool && k != document.Absent {
				return false
			}
		}
	}
	return true
}

// plainQualified reports that s is a qualified name, `name` or `prefix/name`.
func plainQualified(s string) bool {
	for i := range len(s) {
		if s[i] == '/' {
			return plainLabel(s[:i], true) && len(s)-i-1 <= 63 && plainToken(s[i+1:])
		}
	}
	return len(s) <= 63 && plainToken(s)
}

// plainToken reports that s is alphanumeric at both ends, with '-', '_' and '.' between.
func plainToken(s string) bool {
	if s == "" || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// plainLabel reports that s is a DNS label or, with dots, a subdomain.
func plainLabel(s string, dots bool) bool {
	if s == "" || len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case c == '-' && s[i-1] != '.' && s[i+1] != '.':
		case c == '.' && dots && s[i-1] != '.':
		default:
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
