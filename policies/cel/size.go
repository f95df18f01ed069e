package cel

import (
	"math"
	"math/bits"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"k8s.io/apiserver/pkg/cel/library"
)

// sizeClasses are the sizes of what documents hold, for which the cost of an expression is
// bounded when it is compiled: no text of more bytes, no list or map of more elements.
// What a document holds is no larger than itself, in bytes.
var sizeClasses = [...]uint64{32, 128, 512, 2 << 10, 8 << 10, 64 << 10, 1 << 20}

// bounds bounds the cost of an expression for each size class; math.MaxUint64: unknown.
//
// checker.Cost takes no account of a field selected from a dyn, which costs 1 when it is
// metered. So each bound is multiplied by the number of selections.
func (c *compiler) bounds(env *celgo.Env, checked *celgo.Ast) (out [len(sizeClasses)]uint64) {
	for i := range out {
		out[i] = math.MaxUint64
	}
	root := checked.NativeRep()
	factor := uint64(1)
	ast.PreOrderVisit(root.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() == ast.SelectKind || x.Kind() == ast.CallKind && len(x.AsCall().Args()) == 2 {
			factor++
		}
	}))
	for i, n := range sizeClasses {
		est, err := env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: sizes{n: n, vars: c.vars}})
		if err != nil {
			return out
		}
		hi, lo := bits.Mul64(est.Max, factor)
		if hi != 0 || est.Max > c.engine.config.ExpressionLimit {
			return out // larger documents cost more
		}
		out[i] = lo
	}
	return out
}

// sizes implements checker.CostEstimator: what comes from documents has at most n bytes,
// and at most n elements or members.
type sizes struct {
	n    uint64
	vars *varIndex
}

// EstimateSize implements checker.CostEstimator.
func (s sizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	if path[0] == "variables" && (len(path) < 2 || !s.vars.narrow[path[1]]) {
		return nil
	}
	return &checker.SizeEstimate{Min: 0, Max: s.n}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// narrowCalls are functions whose result is a part of an argument, or a scalar.
var narrowCalls = map[string]bool{
	"_[_]": true, "_[?_]": true, "_?._": true, "_?_:_": true, "_==_": true, "_!=_": true, "_<_": true,
	"_<=_": true, "_>_": true, "_>=_": true, "_&&_": true, "_||_": true, "!_": true, "@in": true,
	"size": true, "orValue": true, "or": true, "hasValue": true, "value": true, "matches": true,
	"startsWith": true, "endsWith": true, "contains": true, "int": true, "double": true, "bool": true,
	"dyn": true, "type": true, "optional.of": true, "optional.none": true,
}

// isNarrow reports whether the value of an expression is no larger than the documents
// that it reads: it is a scalar, or a part of one. Literals are allowed where they are
// empty, as in orValue([]).
func (c *compiler) isNarrow(root *ast.AST) bool {
	switch root.GetType(root.Expr().ID()).Kind() {
	case celgo.BoolKind, celgo.IntKind, celgo.UintKind, celgo.DoubleKind:
		return true
	default:
	}
	narrow := true
	ast.PreOrderVisit(root.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch x.Kind() {
		case ast.CallKind:
			narrow = narrow && narrowCalls[x.AsCall().FunctionName()]
		case ast.ListKind:
			narrow = narrow && x.AsList().Size() == 0
		case ast.MapKind:
			narrow = narrow && x.AsMap().Size() == 0
		case ast.LiteralKind:
			s, isString := x.AsLiteral().Value().(string)
			narrow = narrow && (!isString || len(s) < 256)
		case ast.SelectKind:
			if op := x.AsSelect().Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == "variables" {
				narrow = narrow && c.vars.narrow[x.AsSelect().FieldName()]
			}
		case ast.ComprehensionKind, ast.StructKind:
			narrow = false
		default:
		}
	}))
	return narrow
}
