package cel

import (
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// checkConfiguration says what is wrong with the objects that an expression makes of Object{…}, whose fields may be
// anything for the compiler, where it is to be merged into one of a known type.
func checkConfiguration(checked *celgo.Ast, object *ObjectType) *celgo.Issues {
	source := checked.Source()
	issues := celgo.NewIssuesWithSourceInfo(common.NewErrors(source), checked.NativeRep().SourceInfo())
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.StructKind {
			return
		}
		declared := configured(object.declared, x.AsStruct().TypeName())
		if declared == nil || !declared.IsObject() {
			return // nothing is known of it
		}
		for _, field := range x.AsStruct().Fields() {
			f := field.AsStructField()
			known, ok := fieldOf(declared, f.Name())
			if !ok {
				issues.ReportErrorAtID(field.ID(), "undefined field '%s'", f.Name())
				continue
			}
			have := checked.NativeRep().GetType(f.Value().ID())
			if f.IsOptional() && have.Kind() == types.OpaqueKind && len(have.Parameters()) == 1 {
				have = have.Parameters()[0]
			}
			if !fits(have, known.Type) {
				issues.ReportErrorAtID(field.ID(), "expected type of field '%s' is '%s' but provided type is '%s'", f.Name(), nameOf(known.Type), celgo.FormatCELType(have))
			}
		}
	}))
	return issues
}

// configured returns the type that Object.spec.template is of, or nil. The items of a list have the name of the list.
func configured(root *apiservercel.DeclType, name string) *apiservercel.DeclType {
	path, ok := strings.CutPrefix(name, mutation.ObjectTypeName)
	if !ok || (path != "" && path[0] != '.') {
		return nil
	}
	t := root
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		if segment == "" {
			continue
		}
		if !t.IsObject() {
			return nil
		}
		field, ok := fieldOf(t, segment)
		if !ok {
			return nil // that is told where it is set
		}
		for t = field.Type; t.IsList(); {
			t = t.ElemType
		}
	}
	return t
}

func fieldOf(t *apiservercel.DeclType, name string) (*apiservercel.DeclField, bool) {
	if f, ok := t.FindField(name); ok {
		return f, true
	}
	if escaped, ok := apiservercel.Escape(name); ok {
		return t.FindField(escaped)
	}
	return nil, false
}

// fits reports whether a value of a type may be set to a field. What is only known when it is evaluated may.
func fits(have *celgo.Type, want *apiservercel.DeclType) bool {
	is := func(kinds ...types.Kind) bool {
		for _, k := range append(kinds, types.DynKind, types.AnyKind, types.NullTypeKind, types.ErrorKind, types.TypeParamKind) {
			if have.Kind() == k {
				return true
			}
		}
		return false
	}
	elem := func(i int, want *apiservercel.DeclType) bool {
		return len(have.Parameters()) <= i || fits(have.Parameters()[i], want)
	}
	switch {
	case want.IsObject():
		return is(types.StructKind, types.MapKind)
	case want.IsList():
		return is(types.ListKind) && elem(0, want.ElemType)
	case want.IsMap():
		return is(types.StructKind, types.MapKind) && (have.Kind() != types.MapKind || elem(1, want.ElemType))
	}
	switch want.CelType().Kind() {
	case types.BoolKind:
		return is(types.BoolKind)
	case types.IntKind, types.UintKind:
		return is(types.IntKind, types.UintKind)
	case types.DoubleKind:
		return is(types.DoubleKind, types.IntKind, types.UintKind)
	case types.StringKind, types.BytesKind:
		return is(types.StringKind, types.BytesKind)
	case types.TimestampKind, types.DurationKind:
		return is(types.StringKind, want.CelType().Kind())
	default:
		return true
	}
}

// nameOf is a type as an author would write it: those of objects have long names that nobody declared.
func nameOf(t *apiservercel.DeclType) string {
	switch {
	case t.IsObject():
		return "object"
	case t.IsList():
		return "list(" + nameOf(t.ElemType) + ")"
	case t.IsMap():
		return "map(string, " + nameOf(t.ElemType) + ")"
	}
	return celgo.FormatCELType(t.CelType())
}
