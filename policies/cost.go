package policies

import "fmt"

// Default limits, those of ValidatingAdmissionPolicy (k8s.io/apiserver/pkg/apis/cel).
const (
	// DefaultExpressionLimit bounds one evaluation, roughly 0.1 s of CPU.
	DefaultExpressionLimit = 1_000_000
	// DefaultRunLimit bounds all evaluations of a run.
	DefaultRunLimit = 10_000_000
)

// Cost is an account of evaluations, in units of the engine.
type Cost struct {
	// Used is the cost of the evaluations that were metered.
	Used uint64
	// Proven bounds the cost of those that were not, because what is known of the
	// expression and the size of the documents proves that they are cheap.
	Proven uint64
}

// Add adds to an account, if there is one.
func (c *Cost) Add(more Cost) {
	if c != nil {
		c.Used += more.Used
		c.Proven += more.Proven
	}
}

// CostError says that an evaluation was stopped for its cost.
type CostError struct {
	// Path and Text of the expression.
	Path, Text string
	// Used when it was stopped, and the Limit that this exceeds.
	Used, Limit uint64
	// Run is set when the limit is that of the run, not that of one expression.
	Run bool
}

// Error implements error.
func (e *CostError) Error() string {
	what := "expression"
	if e.Run {
		what = "all expressions together"
	}
	return fmt.Sprintf("cost limit exceeded: %s used %d of %d", what, e.Used, e.Limit)
}

// EvalError says that an expression could not be evaluated on the documents it was given.
type EvalError struct {
	// Path and Text of the expression.
	Path, Text string
	Err        error
}

// Error implements error.
func (e *EvalError) Error() string { return e.Err.Error() }

// Unwrap gives the engine's error.
func (e *EvalError) Unwrap() error { return e.Err }

// Estimator is an Engine that can say what a source would cost before it is run.
type Estimator interface {
	// Estimate returns the most that each variable and expression of a source costs, by itself, where every list, map and
	// string that it reads has so many elements at most. math.MaxUint64: nothing is known. Those that do not compile cost 0.
	Estimate(src *Source, elements uint64) (variables, expressions []uint64, err error)
}
