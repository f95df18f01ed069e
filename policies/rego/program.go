package rego

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"

	"weir.dev/weir/policies"
)

// Program is a compiled policy. It is immutable and may be used concurrently.
type Program struct {
	config   Config
	path     string
	places   map[string]string // where a module stands, by the file name that the parser knows
	strict   bool
	compiler *ast.Compiler
	builtins map[string]*topdown.Builtin
	data     *data
	shape    *shape
	queries  []query
}

// query evaluates one rule to the variable result.
type query struct {
	role role
	ref  ast.Ref
	body ast.Body
}

var _ policies.Judge = (*Program)(nil)

// Reads lists the parts of input that the policy can see, sorted:
// input.object.spec.containers[*].image. What it cannot see is never built.
func (p *Program) Reads() []string {
	if !p.shape.whole && len(p.shape.members) == 0 && p.shape.each == nil {
		return nil
	}
	return p.shape.paths("input")
}

// Mentions reports whether the policy can see a member of input: namespaceObject.
func (p *Program) Mentions(input string) bool { return p.shape.whole || p.shape.member(input) != nil }

// Judge implements policies.Judge. The error is an *policies.EvalError, a
// *policies.CostError, or wraps that of ctx, context.DeadlineExceeded for a timeout.
func (p *Program) Judge(ctx context.Context, r *policies.Review) (*policies.Decision, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", p.path, context.Cause(ctx))
	}
	return p.judge(ctx, inputTerm(r, p.shape), r)
}

func (p *Program) judge(ctx context.Context, input *ast.Term, r *policies.Review) (*policies.Decision, error) {
	m := newMeter(ctx, p.config, p.path)
	e := evaluation{program: p, meter: m, input: input, time: r.Time, cache: topdown.NewVirtualCache()}
	if e.time.IsZero() {
		e.time = time.Unix(0, 0)
	}
	defer func() { r.Spent.Add(policies.Cost{Used: m.used}) }()
	d := &decider{decision: &policies.Decision{}}
	for _, q := range p.queries {
		if q.role == message && !d.needsMessage {
			continue
		}
		value, err := e.run(ctx, q)
		if err == nil {
			err = d.add(q.role, value)
		}
		if err != nil {
			if failure := (*policies.EvalError)(nil); !errors.As(err, &failure) && m.err == nil {
				err = &policies.EvalError{Path: p.path, Err: err}
			}
			return nil, err
		}
	}
	return d.decision, nil
}

// evaluation is that of the rules of a policy on one input. What one rule made, the next
// finds in the cache.
type evaluation struct {
	program *Program
	meter   *meter
	input   *ast.Term
	time    time.Time
	cache   topdown.VirtualCache
}

// run returns the value of a rule; nil when it is undefined.
func (e *evaluation) run(ctx context.Context, q query) (ast.Value, error) {
	p := e.program
	var value ast.Value
	err := topdown.NewQuery(q.body).
		WithCompiler(p.compiler).
		WithStore(p.data).
		WithInput(e.input).
		WithBuiltins(p.builtins).
		WithCancel(e.meter).
		WithTime(e.time).
		WithSeed(bytes.NewReader(nil)).
		WithMetrics(metrics.NoOp()).
		WithVirtualCache(e.cache).
		WithStrictBuiltinErrors(p.strict).
		Iter(ctx, func(result topdown.QueryResult) error {
			if t := result[resultVar]; t != nil {
				value = t.Value
			}
			return nil
		})
	switch {
	case e.meter.err != nil:
		return nil, e.meter.err
	case err != nil:
		return nil, p.evalError(err)
	}
	return value, nil
}

// evalError says where an error is.
func (p *Program) evalError(err error) error {
	out := &policies.EvalError{Path: p.path, Err: err}
	var failure *topdown.Error
	if errors.As(err, &failure) {
		text := strings.ReplaceAll(failure.Message, guardPrefix, "")
		if at := failure.Location; at != nil && at.Row > 0 {
			if place := p.places[at.File]; place != "" {
				out.Path = place
			}
			text = fmt.Sprintf("line %d: %s", at.Row, text)
		}
		out.Err = errors.New(text)
	}
	return out
}
