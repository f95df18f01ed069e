package cel

import (
	"slices"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/interpreter"

	"weir.dev/weir/policies"
)

// checkFrequency is the number of iterations after which a metered comprehension looks
// whether its context is done.
const checkFrequency = 100

// expression is one compiled text.
type expression struct {
	// plain is nil where an evaluation must always be metered.
	plain interpreter.InterpretableV2
	want  policies.Type
	// bounds on the cost by size class; see compiler.bounds.
	bounds     [len(sizeClasses)]uint64
	path, text string
	output     *celgo.Type
	mentions   uint64 // inputs, as bits by index
	narrow     bool
	// metered is planned when it is needed first.
	metered func() (*meteredProgram, error)
}

// program implements policies.Program.
type program struct {
	config      Config
	inputs      []string
	variables   []*expression
	names       []string     // of the variables
	expressions []expression // one beside the other
	// mentioned are the inputs that any expression uses, as bits by index.
	mentioned uint64
	runs      *sync.Pool // of *run, those of the engine
}

// Mentions implements policies.Program.
func (p *program) Mentions(i int, input string) bool {
	n := slices.Index(p.inputs, input)
	return n >= 0 && p.expressions[i].mentions&(1<<n) != 0
}

// Begin implements policies.Program.
func (p *program) Begin() policies.Run {
	r, _ := p.runs.Get().(*run)
	r.program = p
	if n := len(p.inputs); n <= fewInputs {
		r.inputs = r.few[:n]
	} else {
		r.inputs = make([]input, n)
	}
	if n := len(p.variables); n <= cap(r.variables) {
		r.variables = r.variables[:n]
	} else {
		r.variables = make([]variable, n)
	}
	return r
}

var (
	_ policies.Releaser  = (*run)(nil)
	_ policies.Continuer = (*program)(nil)
)

// maxKeptWide is how many indexes of large values a run keeps for another program.
const maxKeptWide = 64

// Continue implements policies.Continuer. Documents stay bound, and what is known of them stays.
func (p *program) Continue(ended policies.Run) bool {
	r, ok := ended.(*run)
	if !ok || len(p.inputs) > fewInputs || !sameInputs(p.inputs, r.program.inputs) {
		return false
	}
	r.program = p
	if n := len(p.variables); n <= cap(r.variables) {
		r.variables = r.variables[:n]
	} else {
		r.variables = make([]variable, n)
	}
	if len(r.wide.known) > maxKeptWide {
		clear(r.wide.known)
	}
	r.bytes, r.widest = 0, 0
	r.cost, r.allocated, r.worked, r.steps, r.stopped, r.authorizer = policies.Cost{}, 0, 0, 0, nil, nil
	return true
}

// sameInputs reports whether programs have the same inputs. Those of policies have one list.
func sameInputs(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// maxPooledVariables bounds what is kept of a run for another.
const maxPooledVariables = 64

// Release implements policies.Releaser.
func (r *run) Release() {
	pool, variables := r.program.runs, r.variables
	if clear(variables); cap(variables) > maxPooledVariables {
		variables = nil
	}
	*r = run{variables: variables[:0]}
	pool.Put(r)
}
