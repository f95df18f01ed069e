package cel

import (
	"math"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"k8s.io/apiserver/pkg/cel/library"

	"weir.dev/weir/policies"
)

var _ policies.Estimator = (*Engine)(nil)

// Estimate implements policies.Estimator.
func (e *Engine) Estimate(src *policies.Source, elements uint64) (variables, expressions []uint64, err error) {
	c := compiler{engine: e, src: src, vars: &varIndex{index: map[string]int{}, types: map[string]*celgo.Type{}}}
	of := func(x *policies.Expression) (uint64, *celgo.Type, error) {
		env, err := c.env(x)
		if err != nil {
			return 0, nil, err
		}
		checked, issues := env.Compile(x.Text)
		if issues.Err() != nil {
			return 0, celgo.DynType, nil // that is told by Compile
		}
		cost, err := env.EstimateCost(checked, &library.CostEstimator{SizeEstimator: alike{elements}})
		if err != nil {
			return math.MaxUint64, checked.OutputType(), nil //nolint:nilerr // nothing is known of it
		}
		return cost.Max, checked.OutputType(), nil
	}
	for i := range src.Variables {
		v := &src.Variables[i]
		cost, t, err := of(&v.Expression)
		if err != nil {
			return nil, nil, err
		}
		variables = append(variables, cost)
		c.vars.index[v.Name], c.vars.types[v.Name] = i, t
	}
	for i := range src.Expressions {
		cost, _, err := of(&src.Expressions[i])
		if err != nil {
			return nil, nil, err
		}
		expressions = append(expressions, cost)
	}
	return variables, expressions, nil
}

// alike implements checker.CostEstimator: every list, map and string has n elements at most.
type alike struct{ n uint64 }

// EstimateSize implements checker.CostEstimator.
func (s alike) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Min: 0, Max: s.n}
}

// EstimateCallCost implements checker.CostEstimator.
func (alike) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
