package apply

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
)

// owner is an entry of managedFields.
type owner struct {
	manager, operation, subresource string
	// time is "" where the entry has none.
	time   string
	fields document.Value
}

// maxUpdaters is the number of entries of updates beyond which upstream merges the oldest.
const maxUpdaters = 10

// owners reads managedFields. ok is false for what this server would not have written, and for owners of fields of
// another version than apiVersion, which the library converts.
func owners(managed document.Value, apiVersion string) (list []owner, ok bool) {
	if managed.Kind() != document.Array || managed.Len() == 0 {
		return nil, false
	}
	list = make([]owner, 0, managed.Len()+1)
	updaters := 0
	for _, entry := range managed.Elements() {
		if entry.Kind() != document.Object {
			return nil, false
		}
		var o owner
		known := 0
		for name, v := range entry.Members() {
			switch name {
			case "apiVersion":
				if v.String() != apiVersion {
					return nil, false
				}
				known++
			case "fieldsType":
				if v.String() != "FieldsV1" {
					return nil, false
				}
				known++
			case "fieldsV1":
				if v.Kind() != document.Object || v.Len() == 0 {
					return nil, false
				}
				o.fields = v
				known++
			case "manager":
				o.manager = v.String()
			case "operation":
				o.operation = v.String()
			case "subresource":
				o.subresource = v.String()
			case "time":
				if o.time = v.String(); !isTime(o.time) {
					return nil, false
				}
			default:
				return nil, false
			}
		}
		switch metav1.ManagedFieldsOperationType(o.operation) {
		case metav1.ManagedFieldsOperationApply:
		case metav1.ManagedFieldsOperationUpdate:
			updaters++
		default:
			return nil, false
		}
		if known != 3 || o.manager == "" || !isPlainText(o.manager, `"\<>&`) || !isPlainText(o.subresource, `"\<>&`) || find(list, o) >= 0 {
			return nil, false
		}
		list = append(list, o)
	}
	return list, updaters <= maxUpdaters
}

// isTime reports whether text is a time as metav1.Time spells it, so that texts compare as times do.
func isTime(text string) bool {
	t, err := time.Parse(time.RFC3339, text)
	return err == nil && len(text) == len("2006-01-02T15:04:05Z") && t.UTC().Format(time.RFC3339) == text
}

// find returns the index of the entry with the identity of o, -1 where there is none.
func find(list []owner, o owner) int {
	return slices.IndexFunc(list, func(have owner) bool {
		return have.manager == o.manager && have.operation == o.operation && have.subresource == o.subresource
	})
}

// owns reports whether the field is owned by itself, not only what is in it.
func (o *owner) owns(fields []string) bool {
	v := o.fields.Get(fields...)
	return v.Exists() && (v.Len() == 0 || v.Get(".").Exists())
}

// compareOwners orders entries as upstream does.
func compareOwners(a, b owner) int {
	return cmp.Or(
		strings.Compare(a.operation, b.operation), strings.Compare(a.time, b.time),
		strings.Compare(a.manager, b.manager), strings.Compare(a.subresource, b.subresource))
}

// appendOwners appends managedFields.
func appendOwners(dst []byte, list []owner, apiVersion string) []byte {
	dst = append(dst, '[')
	for i, o := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendOwner(dst, o, apiVersion, o.fields.Raw())
	}
	return append(dst, ']')
}

func appendOwner(dst []byte, o owner, apiVersion string, fields []byte) []byte {
	dst = append(append(append(dst, `{"apiVersion":"`...), apiVersion...), `","fieldsType":"FieldsV1","fieldsV1":`...)
	dst = append(append(append(dst, fields...), `,"manager":"`...), o.manager...)
	dst = append(append(dst, `","operation":"`...), o.operation...)
	if o.subresource != "" {
		dst = append(append(dst, `","subresource":"`...), o.subresource...)
	}
	if o.time != "" {
		dst = append(append(dst, `","time":"`...), o.time...)
	}
	return append(dst, `"}`...)
}

// isSettled reports whether fields, a FieldsV1 of type t, were written when types were what they are: what has
// become atomic since is owned as a whole, which the library sees to.
func isSettled(fields document.Value, t *mergeType) bool {
	for name, below := range fields.Members() {
		if name == "." {
			continue
		}
		var sub *mergeType
		switch {
		case len(name) > 2 && name[:2] == "f:":
			if sub, _ = t.member(name[2:]); sub == nil {
				continue // what is not in the schema any more
			}
			if !t.isMap {
				return false
			}
		case len(name) > 2 && (name[:2] == "k:" || name[:2] == "v:"):
			if sub = t.item; sub == nil || !t.isList || t.isMap {
				return false
			}
		default:
			return false
		}
		if below.Len() == 0 {
			continue
		}
		if sub.isMap && sub.mapAtomic || !sub.isMap && sub.isList && sub.listAtomic || !isSettled(below, sub) {
			return false
		}
	}
	return true
}
