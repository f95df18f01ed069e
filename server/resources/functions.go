package resources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// function is one of the functions of a template expression.
type function struct {
	// min and max bound the number of arguments.
	min, max int
	// parse prepares the arguments; nil: they are texts.
	parse func(c *call) error
	apply func(s scope, values []any, c *call) []any
}

const manyArguments = 1 << 10

// lookupFunction finds a function by name.
func lookupFunction(name string) (function, bool) {
	switch name {
	case "and":
		return function{min: 1, max: 1, parse: parsePathArgument, apply: and}, true
	case "count":
		return function{apply: count}, true
	case "size":
		return function{apply: size}, true
	case "lower":
		return function{apply: lower}, true
	case "sum":
		return function{apply: sum}, true
	case "first":
		return function{apply: func(_ scope, values []any, _ *call) []any { return values[:min(1, len(values))] }}, true
	case "limit":
		return function{min: 1, max: 1, parse: parseNumber, apply: limit}, true
	case "uniq":
		return function{apply: uniq}, true
	case "sort":
		return function{apply: sortValues}, true
	case "join":
		return function{min: 1, max: 1, apply: join}, true
	case "map":
		return function{min: 1, max: manyArguments, apply: mapValues}, true
	case "then":
		return function{min: 1, max: 1, apply: then}, true
	case "prefix":
		return function{min: 1, max: 1, apply: prefix}, true
	case "keys":
		return function{apply: keys}, true
	case "pairs":
		return function{apply: pairs}, true
	case "selector":
		return function{apply: selector}, true
	case "each":
		return function{min: 1, max: 1, parse: parseNested, apply: each}, true
	case "age":
		return function{apply: ages}, true
	case "until":
		return function{min: 1, max: 1, parse: parsePathArgument, apply: until}, true
	case "before":
		return function{min: 1, max: 1, apply: before}, true
	}
	return function{}, false
}

func parseCall(tokens []token) (call, error) {
	if len(tokens) == 0 || tokens[0].quoted {
		return call{}, fmt.Errorf("expression: no function after |")
	}
	fn, ok := lookupFunction(tokens[0].text)
	if !ok {
		return call{}, fmt.Errorf("function %q is unknown", tokens[0].text)
	}
	c := call{fn: fn}
	for _, t := range tokens[1:] {
		c.args = append(c.args, t.text)
	}
	if len(c.args) < fn.min || len(c.args) > fn.max {
		return c, fmt.Errorf("function %s: wrong number of arguments: %d", tokens[0].text, len(c.args))
	}
	if fn.parse != nil {
		if err := fn.parse(&c); err != nil {
			return c, fmt.Errorf("function %s: %w", tokens[0].text, err)
		}
	}
	return c, nil
}

func parseNumber(c *call) (err error) {
	c.n, err = strconv.Atoi(c.args[0])
	return err
}

func parseNested(c *call) (err error) {
	c.tmpl, err = parseTemplate(c.args[0])
	return err
}

func parsePathArgument(c *call) (err error) {
	c.path, err = parsePath(c.args[0])
	return err
}

func and(s scope, values []any, c *call) []any {
	return append(slices.Clip(values), present(c.path.all(s.root))...)
}

func count(_ scope, values []any, _ *call) []any { return []any{int64(len(values))} }

func size(_ scope, values []any, _ *call) []any {
	n := 0
	for _, value := range values {
		switch v := value.(type) {
		case []any:
			n += len(v)
		case map[string]any:
			n += len(v)
		}
	}
	return []any{int64(n)}
}

func sum(_ scope, values []any, _ *call) []any {
	total := int64(0)
	for _, value := range values {
		switch n := value.(type) {
		case int64:
			total += n
		case float64:
			total += int64(n)
		case json.Number:
			if i, err := n.Int64(); err == nil {
				total += i
			}
		}
	}
	return []any{total}
}

func limit(_ scope, values []any, c *call) []any {
	if len(values) <= c.n {
		return values
	}
	return []any{joinText(values[:c.n], ",") + " + " + strconv.Itoa(len(values)-c.n) + " more..."}
}

func uniq(_ scope, values []any, _ *call) []any {
	var kept []any
	seen := map[string]bool{}
	for _, value := range values {
		if t := textOf(value); !seen[t] {
			seen[t] = true
			kept = append(kept, value)
		}
	}
	return kept
}

func sortValues(_ scope, values []any, _ *call) []any {
	values = slices.Clone(values)
	slices.SortStableFunc(values, func(a, b any) int { return cmp.Compare(textOf(a), textOf(b)) })
	return values
}

func join(_ scope, values []any, c *call) []any {
	if len(values) == 0 {
		return nil
	}
	return []any{joinText(values, c.args[0])}
}

func mapValues(_ scope, values []any, c *call) []any {
	out := make([]any, 0, len(values))
	for _, value := range values {
		t, to := textOf(value), any(nil)
		for i := 0; i+1 < len(c.args); i += 2 {
			if c.args[i] == t {
				to = c.args[i+1]
				break
			}
		}
		switch {
		case to != nil:
		case len(c.args)%2 == 1:
			to = c.args[len(c.args)-1]
		default:
			to = value
		}
		out = append(out, to)
	}
	return present(out)
}

func then(_ scope, values []any, c *call) []any {
	if len(values) == 0 {
		return nil
	}
	return []any{c.args[0]}
}

func prefix(_ scope, values []any, c *call) []any {
	var out []any
	for _, value := range values {
		if rest, ok := strings.CutPrefix(textOf(value), c.args[0]); ok {
			out = append(out, rest)
		}
	}
	return out
}

func keys(_ scope, values []any, _ *call) []any {
	var out []any
	for _, value := range values {
		if m, ok := value.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(m)) {
				out = append(out, key)
			}
		}
	}
	return out
}

func pairs(_ scope, values []any, _ *call) []any {
	var out []any
	for _, value := range values {
		m, ok := value.(map[string]any)
		if !ok || len(m) == 0 {
			continue
		}
		parts := make([]string, 0, len(m))
		for _, key := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, key+"="+textOf(m[key]))
		}
		out = append(out, strings.Join(parts, ","))
	}
	return out
}

// selector prints a LabelSelector as metav1.FormatLabelSelector does.
func selector(s scope, values []any, c *call) []any {
	var out []any
	for _, value := range values {
		m, ok := value.(map[string]any)
		if !ok {
			continue
		}
		_, labels := m["matchLabels"].(map[string]any)
		_, expressions := m["matchExpressions"].([]any)
		if !labels && !expressions {
			out = append(out, pairs(s, []any{m}, c)...)
			continue
		}
		parsed := metav1.LabelSelector{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &parsed); err != nil {
			continue
		}
		if formatted := metav1.FormatLabelSelector(&parsed); formatted != "" {
			out = append(out, formatted)
		}
	}
	return out
}

func each(s scope, values []any, c *call) []any {
	out := make([]any, 0, len(values))
	for _, value := range values {
		out = append(out, c.tmpl.render(value, s.now))
	}
	return present(out)
}

func ages(s scope, values []any, _ *call) []any {
	out := make([]any, 0, len(values))
	for _, value := range values {
		out = append(out, age(textOf(value), s.now))
	}
	return out
}

func until(s scope, values []any, c *call) []any {
	end := s.now
	if value, ok := c.path.first(s.root); ok {
		t, err := time.Parse(time.RFC3339, textOf(value))
		if err != nil {
			return nil
		}
		end = t
	}
	var out []any
	for _, value := range values {
		if start, err := time.Parse(time.RFC3339, textOf(value)); err == nil {
			out = append(out, duration.HumanDuration(end.Sub(start)))
		}
	}
	return out
}

func before(_ scope, values []any, c *call) []any {
	var out []any
	for _, value := range values {
		if head, _, ok := strings.Cut(textOf(value), c.args[0]); ok {
			out = append(out, head)
		}
	}
	return out
}

func lower(_ scope, values []any, _ *call) []any {
	out := make([]any, 0, len(values))
	for _, value := range values {
		out = append(out, strings.ToLower(textOf(value)))
	}
	return out
}
