package cel

import (
	"reflect"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"weir.dev/weir/abi/document"
)

// scalar gives the CEL value of a value in a document that is no container. An Absent one is null.
func scalar(v document.Value) ref.Val {
	switch v.Kind() {
	case document.Bool:
		b, _ := v.Bool()
		return types.Bool(b)
	case document.Number:
		if i, ok := v.Int(); ok {
			return types.Int(i)
		}
		f, _ := v.Float()
		return types.Double(f)
	case document.String:
		return types.String(v.String())
	default:
		return types.NullValue
	}
}

// mapVal is an object of a document as a CEL map.
type mapVal struct {
	v    document.Value
	wide *wideValues
}

var (
	_ traits.Mapper = (*mapVal)(nil)
	_ traits.Zeroer = (*mapVal)(nil)
)

// Find implements traits.Mapper.
func (m *mapVal) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v := m.wide.member(m.v, string(name))
	if !v.Exists() {
		return nil, false
	}
	return m.wide.refVal(v), true
}

// Get implements traits.Indexer.
func (m *mapVal) Get(key ref.Val) ref.Val {
	v, ok := m.Find(key)
	if !ok {
		return types.NewErr("no such key: %v", key)
	}
	return v
}

// Contains implements traits.Container.
func (m *mapVal) Contains(key ref.Val) ref.Val {
	name, ok := key.(types.String)
	return types.Bool(ok && m.wide.member(m.v, string(name)).Exists())
}

// Size implements traits.Sizer.
func (m *mapVal) Size() ref.Val { return types.Int(m.v.Len()) }

// IsZeroValue implements traits.Zeroer.
func (m *mapVal) IsZeroValue() bool { return m.v.Len() == 0 }

// Iterator implements traits.Iterable: the keys, sorted.
func (m *mapVal) Iterator() traits.Iterator {
	keys := make([]string, 0, m.v.Len())
	for name := range m.v.Members() {
		keys = append(keys, name)
	}
	return &iterator{n: len(keys), at: func(i int) ref.Val { return types.String(keys[i]) }}
}

// Fold implements traits.Foldable.
func (m *mapVal) Fold(f traits.Folder) {
	for name, v := range m.v.Members() {
		if !f.FoldEntry(types.String(name), m.wide.refVal(v)) {
			return
		}
	}
}

// Equal implements ref.Val. Numbers are equal by value, as anywhere in CEL.
func (m *mapVal) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*mapVal); ok && m.v.Equal(o.v) {
		return types.True
	}
	o, ok := other.(traits.Mapper)
	if !ok {
		return types.False
	}
	if o.Size() != m.Size() {
		return types.False
	}
	for name, v := range m.v.Members() {
		ov, ok := o.Find(types.String(name))
		if !ok || types.Equal(m.wide.refVal(v), ov) != types.True {
			return types.False
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (m *mapVal) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeOf(m).AssignableTo(t) && t.Kind() == reflect.Interface && t.NumMethod() > 0 {
		return m, nil
	}
	native, _ := m.v.Interface().(map[string]any)
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, native).ConvertToNative(t)
}

// ConvertToType implements ref.Val.
func (m *mapVal) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.MapType, t)
}

// Type implements ref.Val.
func (m *mapVal) Type() ref.Type { return types.MapType }

// Value implements ref.Val: a map[string]any.
func (m *mapVal) Value() any { return m.v.Interface() }

// String is the JSON of the object.
func (m *mapVal) String() string { return string(m.v.Raw()) }

// listVal is an array of a document as a CEL list.
type listVal struct {
	v    document.Value
	wide *wideValues
}

var (
	_ traits.Lister = (*listVal)(nil)
	_ traits.Zeroer = (*listVal)(nil)
)

// Add implements traits.Adder: a new list of both.
func (l *listVal) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	all := make([]ref.Val, 0, l.v.Len())
	for _, e := range l.v.Elements() {
		all = append(all, l.wide.refVal(e))
	}
	for it := o.Iterator(); it.HasNext() == types.True; {
		all = append(all, it.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, all)
}

// Contains implements traits.Container.
func (l *listVal) Contains(value ref.Val) ref.Val {
	for _, e := range l.v.Elements() {
		if types.Equal(l.wide.refVal(e), value) == types.True {
			return types.True
		}
	}
	return types.False
}

// Get implements traits.Indexer.
func (l *listVal) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	v := l.wide.element(l.v, i)
	if !v.Exists() {
		return types.NewErr("index '%d' out of range in list size '%d'", i, l.v.Len())
	}
	return l.wide.refVal(v)
}

// Size implements traits.Sizer.
func (l *listVal) Size() ref.Val { return types.Int(l.v.Len()) }

// IsZeroValue implements traits.Zeroer.
func (l *listVal) IsZeroValue() bool { return l.v.Len() == 0 }

// Iterator implements traits.Iterable.
func (l *listVal) Iterator() traits.Iterator {
	elements := make([]document.Value, 0, l.v.Len())
	for _, e := range l.v.Elements() {
		elements = append(elements, e)
	}
	return &iterator{n: len(elements), at: func(i int) ref.Val { return l.wide.refVal(elements[i]) }}
}

// Fold implements traits.Foldable.
func (l *listVal) Fold(f traits.Folder) {
	for i, v := range l.v.Elements() {
		if !f.FoldEntry(types.Int(i), l.wide.refVal(v)) {
			return
		}
	}
}

// Equal implements ref.Val.
func (l *listVal) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*listVal); ok && l.v.Equal(o.v) {
		return types.True
	}
	o, ok := other.(traits.Lister)
	if !ok {
		return types.False
	}
	if o.Size() != l.Size() {
		return types.False
	}
	it := o.Iterator()
	for _, e := range l.v.Elements() {
		if types.Equal(l.wide.refVal(e), it.Next()) != types.True {
			return types.False
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (l *listVal) ConvertToNative(t reflect.Type) (any, error) {
	if reflect.TypeOf(l).AssignableTo(t) && t.Kind() == reflect.Interface && t.NumMethod() > 0 {
		return l, nil
	}
	return types.NewDynamicList(types.DefaultTypeAdapter, l.v.Interface()).ConvertToNative(t)
}

// ConvertToType implements ref.Val.
func (l *listVal) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.ListType, t)
}

// Type implements ref.Val.
func (l *listVal) Type() ref.Type { return types.ListType }

// Value implements ref.Val: a []any.
func (l *listVal) Value() any { return l.v.Interface() }

// String is the JSON of the array.
func (l *listVal) String() string { return string(l.v.Raw()) }

// iterator implements traits.Iterator over n values.
type iterator struct {
	n, i int
	at   func(i int) ref.Val
}

// HasNext implements traits.Iterator.
func (it *iterator) HasNext() ref.Val { return types.Bool(it.i < it.n) }

// Next implements traits.Iterator.
func (it *iterator) Next() ref.Val {
	if it.i >= it.n {
		return nil
	}
	it.i++
	return it.at(it.i - 1)
}

// ConvertToNative implements ref.Val.
func (it *iterator) ConvertToNative(t reflect.Type) (any, error) {
	return nil, errUnsupported(t.String())
}

// ConvertToType implements ref.Val.
func (it *iterator) ConvertToType(ref.Type) ref.Val {
	return types.NewErr("no such overload")
}

// Equal implements ref.Val.
func (it *iterator) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// Type implements ref.Val.
func (it *iterator) Type() ref.Type { return types.IteratorType }

// Value implements ref.Val.
func (it *iterator) Value() any { return nil }

type errUnsupported string

// Error implements error.
func (e errUnsupported) Error() string {
	return "unsupported conversion of an iterator to " + strings.TrimSpace(string(e))
}
