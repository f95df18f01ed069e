package codec

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Codec reads and writes values. It remembers how for each type. It is safe
// for concurrent use.
type Codec struct {
	mu    sync.Mutex
	plans map[reflect.Type]*plan // guarded by mu
}

// New returns a Codec.
func New() *Codec { return &Codec{plans: map[reflect.Type]*plan{}} }

// kind says how the values of a type are written.
type kind uint8

const (
	kindUnsupported kind = iota
	kindMarshaler        // UnmarshalJSON and MarshalJSON
	kindText             // UnmarshalText and MarshalText
	kindString
	kindBool
	kindInt
	kindUint
	kindFloat
	kindBytes // base64
	kindAny
	kindPointer
	kindSlice
	kindArray
	kindMap
	kindStruct
)

// plan is how a type is read and written.
type plan struct {
	typ    reflect.Type
	kind   kind
	elem   *plan   // of pointers, slices, arrays and maps
	fields []field // of structs, sorted by name
	key    int     // index in fields of what identifies a list element, or -1
	// stringMap marks map[string]string.
	stringMap bool

	paths    [][]string // guarded by Codec.mu until they are known
	outlined bool       // guarded by Codec.mu
	outline  []Member   // guarded by Codec.mu until outlined
}

type field struct {
	name      string
	lead      string // the quoted name and a colon
	index     []int
	plan      *plan
	omitEmpty bool
	omitZero  bool
}

// of returns the field's value in a struct.
func (f *field) of(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

type (
	unmarshaler interface{ UnmarshalJSON([]byte) error }
	marshaler   interface{ MarshalJSON() ([]byte, error) }
	textReader  interface{ UnmarshalText([]byte) error }
	textWriter  interface{ MarshalText() ([]byte, error) }
)

// implements tells whether a pointer to t is an I.
func implements[I any](t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

// plan returns the plan of a type.
func (c *Codec) plan(t reflect.Type) *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.planLocked(t)
}

func (c *Codec) planLocked(t reflect.Type) *plan {
	if p, ok := c.plans[t]; ok {
		return p
	}
	p := &plan{typ: t, key: -1}
	c.plans[t] = p
	if t.Kind() != reflect.Pointer {
		switch {
		case implements[unmarshaler](t) || implements[marshaler](t):
			p.kind = kindMarshaler
			return p
		case implements[textReader](t) || implements[textWriter](t):
			p.kind = kindText
			return p
		}
	}
	switch t.Kind() {
	case reflect.String:
		p.kind = kindString
	case reflect.Bool:
		p.kind = kindBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.kind = kindInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.kind = kindUint
	case reflect.Float32, reflect.Float64:
		p.kind = kindFloat
	case reflect.Interface:
		if t.NumMethod() == 0 {
			p.kind = kindAny
		}
	case reflect.Pointer:
		p.kind, p.elem = kindPointer, c.planLocked(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			p.kind = kindBytes
			break
		}
		p.kind, p.elem = kindSlice, c.planLocked(t.Elem())
	case reflect.Array:
		p.kind, p.elem = kindArray, c.planLocked(t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			p.kind, p.elem = kindMap, c.planLocked(t.Elem())
			p.stringMap = t == reflect.TypeFor[map[string]string]()
		}
	case reflect.Struct:
		p.kind = kindStruct
		p.fields = c.fieldsLocked(t, nil)
		slices.SortStableFunc(p.fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
		// Of two fields of one name the shallower is meant.
		p.fields = slices.CompactFunc(p.fields, func(a, b field) bool { return a.name == b.name })
		p.key = keyField(t, p.fields)
	}
	return p
}

// fieldsLocked returns the fields of a struct, those of embedded ones last.
func (c *Codec) fieldsLocked(t reflect.Type, prefix []int) []field {
	var own, embedded []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		index := append(slices.Clone(prefix), i)
		if sf.Type.Kind() == reflect.Struct && name == "" && (sf.Anonymous || hasOption(options, "inline")) {
			embedded = append(embedded, c.fieldsLocked(sf.Type, index)...)
			continue
		}
		if !sf.IsExported() {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		f := field{
			name: name, lead: string(appendString(nil, name)) + ":", index: index, plan: c.planLocked(sf.Type),
			omitEmpty: hasOption(options, "omitempty"), omitZero: hasOption(options, "omitzero"),
		}
		if hasOption(options, "string") {
			f.plan = &plan{typ: sf.Type, key: -1}
		}
		own = append(own, f)
	}
	return append(own, embedded...)
}

// keyField finds the field tagged `weir:"key"`, or else the string "name".
func keyField(t reflect.Type, fields []field) int {
	found := -1
	for i := range fields {
		f := &fields[i]
		if f.plan.kind != kindString && f.plan.kind != kindInt {
			continue
		}
		if t.FieldByIndex(f.index).Tag.Get("weir") == "key" {
			return i
		}
		if f.name == "name" && f.plan.kind == kindString {
			found = i
		}
	}
	return found
}

func hasOption(options, want string) bool {
	for options != "" {
		var o string
		o, options, _ = strings.Cut(options, ",")
		if o == want {
			return true
		}
	}
	return false
}

// field finds the field of a name. from is where to begin: input has its
// members sorted, as the fields are, so that the next is at from or soon
// after. It returns where the following member may begin.
func (p *plan) field(name string, from int) (*field, int) {
	if from > 0 && (from > len(p.fields) || p.fields[from-1].name >= name) {
		from = 0
	}
	for ; from < len(p.fields); from++ {
		f := &p.fields[from]
		if f.name == name {
			return f, from + 1
		}
		if f.name > name {
			break
		}
	}
	return nil, from
}

// absent tells whether a value is not written as a member: it is nil, or
// empty and its field says omitempty.
func (f *field) absent(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.Map, reflect.Slice:
		return v.IsNil() || f.omitEmpty && v.Len() == 0
	case reflect.Array:
		return f.omitEmpty && v.Len() == 0 || f.omitZero && v.IsZero()
	case reflect.Struct:
		return f.omitZero && v.IsZero()
	}
	return (f.omitEmpty || f.omitZero) && v.IsZero()
}

// unset tells whether a value says nothing: it is what an absent member is
// decoded to, or an empty map or slice.
func (p *plan) unset(v reflect.Value) bool {
	switch p.kind {
	case kindSlice, kindBytes, kindMap:
		return v.Len() == 0
	case kindStruct:
		for i := range p.fields {
			if f := &p.fields[i]; !f.plan.unset(f.of(v)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}

var errDepth = errors.New("nested too deep")
