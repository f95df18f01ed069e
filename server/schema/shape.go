package schema

import (
	"math"
	"regexp"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"weir.dev/weir/abi/document"
)

// shape is a structural schema laid out for the walks that every write makes: is there anything to prune, to default
// or to object to? Their answer is nearly always no, and no is all that they say: everything else is left to the
// libraries, whose results and errors they must not change.
type shape struct {
	s *structuralschema.Structural

	properties map[string]*shape
	// defaulted is the number of properties that have a default.
	defaulted  int
	hasDefault bool
	// additional are the members beside properties; open says that there may be any.
	additional *shape
	open       bool
	items      *shape

	// opaque schemas have a rule that isSound does not know.
	opaque        bool
	enum          []string
	format        string
	pattern       *regexp.Regexp
	shortest      int64
	longest       int64
	least, most   *float64
	leastExcluded bool
	mostExcluded  bool
	required      []string
	fewest        int64
	uttermost     int64
}

// newShape returns the shape of s, which must not change afterwards.
func newShape(s *structuralschema.Structural) *shape {
	sh := &shape{s: s, longest: math.MaxInt64, uttermost: math.MaxInt64, hasDefault: s.Default.Object != nil}
	if len(s.Properties) > 0 {
		sh.properties = make(map[string]*shape, len(s.Properties))
	}
	for name := range s.Properties {
		p := s.Properties[name]
		sub := newShape(&p)
		sh.properties[name] = sub
		if sub.hasDefault {
			sh.defaulted++
		}
	}
	switch {
	case s.AdditionalProperties == nil:
		sh.open = s.XPreserveUnknownFields
	case s.AdditionalProperties.Structural != nil:
		sh.additional, sh.open = newShape(s.AdditionalProperties.Structural), true
	default:
		sh.open = s.AdditionalProperties.Bool
		sh.opaque = !s.AdditionalProperties.Bool
	}
	if s.Items != nil {
		sh.items = newShape(s.Items)
	}
	sh.opaque = sh.opaque || s.XEmbeddedResource || s.Type == "" && !s.XIntOrString && s.ValueValidation != nil
	if s.ValueValidation != nil {
		sh.addRules(s.ValueValidation)
	}
	return sh
}

// addRules takes over what isSound knows, and marks the shape opaque for everything else.
func (sh *shape) addRules(r *structuralschema.ValueValidation) {
	number := sh.s.Type == "number" || sh.s.Type == "integer"
	sh.opaque = sh.opaque || len(r.AllOf) > 0 || len(r.OneOf) > 0 || r.Not != nil || r.UniqueItems || r.MultipleOf != nil ||
		len(r.AnyOf) > 0 && !(sh.s.XIntOrString && isIntOrString(r.AnyOf)) ||
		sh.s.XIntOrString && (r.Minimum != nil || r.Maximum != nil || r.Format != "") || r.Format == "float"
	for _, value := range r.Enum {
		text, ok := value.Object.(string)
		if !ok || sh.s.Type != "string" {
			sh.opaque = true
			return
		}
		sh.enum = append(sh.enum, text)
	}
	for _, bound := range []*float64{r.Minimum, r.Maximum} {
		// What libraries make of a bound that is itself out of range is theirs to say.
		if bound != nil && (!number || math.Abs(*bound) > math.MaxInt32 || sh.s.Type == "integer" && *bound != math.Trunc(*bound)) {
			sh.opaque = true
		}
	}
	if number {
		sh.least, sh.most, sh.leastExcluded, sh.mostExcluded = r.Minimum, r.Maximum, r.ExclusiveMinimum, r.ExclusiveMaximum
	}
	if sh.format = r.Format; sh.s.Type == "string" && !strfmt.Default.ContainsName(r.Format) {
		sh.format = ""
	}
	if r.Pattern != "" {
		pattern, err := regexp.Compile(r.Pattern)
		sh.pattern, sh.opaque = pattern, sh.opaque || err != nil
	}
	fewest, most := r.MinItems, r.MaxItems
	if sh.s.Type == "object" {
		fewest, most = r.MinProperties, r.MaxProperties
	}
	for _, bound := range []struct {
		to   *int64
		from *int64
	}{{&sh.shortest, r.MinLength}, {&sh.longest, r.MaxLength}, {&sh.fewest, fewest}, {&sh.uttermost, most}} {
		if bound.from != nil {
			*bound.to = *bound.from
		}
	}
	sh.required = r.Required
}

// isIntOrString reports whether anyOf says what x-kubernetes-int-or-string says already.
func isIntOrString(anyOf []structuralschema.NestedValueValidation) bool {
	return len(anyOf) == 2 && slices.ContainsFunc(anyOf, isOnlyType("integer")) && slices.ContainsFunc(anyOf, isOnlyType("string"))
}

func isOnlyType(name string) func(structuralschema.NestedValueValidation) bool {
	return func(v structuralschema.NestedValueValidation) bool {
		return v.ForbiddenGenerics.Type == name && v.Items == nil && v.Properties == nil && v.AdditionalProperties == nil &&
			isNoRule(&v.ValueValidation)
	}
}

func isNoRule(r *structuralschema.ValueValidation) bool {
	return r.Format == "" && r.Maximum == nil && r.Minimum == nil && r.MaxLength == nil && r.MinLength == nil && r.Pattern == "" &&
		r.MultipleOf == nil && r.Enum == nil && r.AllOf == nil && r.AnyOf == nil && r.OneOf == nil && r.Not == nil
}

// member returns the shape of a member. known is false for a field to prune; a nil shape with known set is that of a
// member about which nothing is said.
func (sh *shape) member(name string) (sub *shape, known bool) {
	if p, ok := sh.properties[name]; ok {
		return p, true
	}
	return sh.additional, sh.open
}

// isDefaulted reports whether no default of sh applies to v.
func (sh *shape) isDefaulted(v document.Value) bool {
	switch v.Kind() {
	case document.Object:
		have := 0
		for name, member := range v.Members() {
			sub, listed := sh.properties[name]
			if !listed {
				if sub = sh.additional; sub == nil {
					continue
				}
			}
			if sub.hasDefault {
				if member.Kind() == document.Null && !sub.s.Nullable {
					return false
				}
				if listed {
					have++
				}
			}
			if !sub.isDefaulted(member) {
				return false
			}
		}
		return have == sh.defaulted
	case document.Array:
		if sh.items == nil {
			return true
		}
		for _, element := range v.Elements() {
			if element.Kind() == document.Null && !sh.items.s.Nullable && sh.items.hasDefault {
				return false
			}
			if !sh.items.isDefaulted(element) {
				return false
			}
		}
	}
	return true
}
