package resources

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/client-go/util/jsonpath"
)

// jsonPath is a compiled JSONPath. Plain paths (.a.b[*].c) are walked here;
// anything else is client-go's.
type jsonPath struct {
	steps []step

	mu   sync.Mutex         // client-go's evaluator keeps state
	full *jsonpath.JSONPath // guarded by mu; when steps is nil
}

// step descends into a field, then into all items when each is set.
type step struct {
	field string
	each  bool
}

// parsePath compiles a JSONPath as a CustomResourceDefinition writes it, with
// a leading dot and without braces.
func parsePath(expr string) (*jsonPath, error) {
	if steps, ok := plainSteps(expr); ok {
		return &jsonPath{steps: steps}, nil
	}
	full := jsonpath.New("column")
	if err := full.Parse("{" + expr + "}"); err != nil {
		return nil, fmt.Errorf("jsonPath %q: %w", expr, err)
	}
	full.AllowMissingKeys(true)
	return &jsonPath{full: full}, nil
}

func plainSteps(expr string) ([]step, bool) {
	rest, ok := strings.CutPrefix(expr, ".")
	if !ok {
		return nil, false
	}
	var steps []step
	for part := range strings.SplitSeq(rest, ".") {
		name, each := strings.CutSuffix(part, "[*]")
		if name == "" || strings.ContainsAny(name, `[]\*'"?@()$ {}|,`) {
			return nil, false
		}
		steps = append(steps, step{name, each})
	}
	return steps, true
}

// all gives the values that the path selects. Absent fields select nothing;
// null is a value.
func (p *jsonPath) all(obj any) []any {
	if p.steps != nil {
		return walk(nil, obj, p.steps)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	results, err := p.full.FindResults(obj)
	if err != nil {
		return nil
	}
	var values []any
	for _, result := range results {
		for _, value := range result {
			if !value.IsValid() {
				continue
			}
			values = append(values, value.Interface())
		}
	}
	return values
}

// first gives the first value that the path selects.
func (p *jsonPath) first(obj any) (any, bool) {
	values := p.all(obj)
	if len(values) == 0 {
		return nil, false
	}
	return values[0], true
}

func walk(values []any, obj any, steps []step) []any {
	for i, s := range steps {
		fields, ok := obj.(map[string]any)
		if !ok {
			return values
		}
		if obj, ok = fields[s.field]; !ok {
			return values
		}
		if !s.each {
			continue
		}
		if items, ok := obj.([]any); ok {
			for _, item := range items {
				values = walk(values, item, steps[i+1:])
			}
		}
		return values
	}
	return append(values, obj)
}
