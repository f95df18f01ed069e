package cel

import (
	"slices"

	celgo "github.com/google/cel-go/cel"

	"weir.dev/weir/policies"
)

// checkFrequency is the number of iterations after which a metered comprehension looks
// whether its context is done.
const checkFrequency = 100

// expression is one compiled text.
type expression struct {
	path, text string
	want       policies.Type
	output     *celgo.Type
	mentions   uint64 // inputs, as bits by index
	narrow     bool
	// bounds on the cost by size class; see compiler.bounds.
	bounds [len(sizeClasses)]uint64
	// plain is nil where an evaluation must always be metered.
	plain celgo.Program
	// metered is planned when it is needed first.
	metered func() (*meteredProgram, error)
}

// program implements policies.Program.
type program struct {
	config      Config
	inputs      []string
	variables   []*expression
	expressions []*expression
}

// Mentions implements policies.Program.
func (p *program) Mentions(i int, input string) bool {
	n := slices.Index(p.inputs, input)
	return n >= 0 && p.expressions[i].mentions&(1<<n) != 0
}

// Begin implements policies.Program.
func (p *program) Begin() policies.Run {
	r := &run{program: p}
	if n := len(p.inputs); n <= fewInputs {
		r.inputs = r.few[:n]
	} else {
		r.inputs = make([]input, n)
	}
	if len(p.variables) > 0 {
		r.variables = make([]variable, len(p.variables))
	}
	return r
}
