package rego

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
)

const (
	// maxMessageBytes bounds a message, as upstream's messageExpression; the rest is cut off.
	maxMessageBytes = 5 << 10
	// maxFindings bounds how many denials, and warnings, a decision has.
	maxFindings = 100
)

// decider makes a decision of the values of rules.
type decider struct {
	decision *policies.Decision
	// needsMessage is set when allow did not allow, and the denial that says so.
	needsMessage bool
}

// add takes the value of a rule; nil when it is undefined.
func (d *decider) add(r role, v ast.Value) error {
	switch r {
	case deny, violation:
		return d.findings(r, v, func(f policies.Denial) {
			if len(d.decision.Denials) < maxFindings {
				d.decision.Denials = append(d.decision.Denials, f)
			}
		})
	case warn:
		return d.findings(r, v, func(f policies.Denial) {
			if len(d.decision.Warnings) < maxFindings {
				d.decision.Warnings = append(d.decision.Warnings, f.Message)
			}
		})
	case allow:
		if v == nil || v.Compare(ast.Boolean(true)) != 0 {
			if v != nil && v.Compare(ast.Boolean(false)) != 0 {
				return fmt.Errorf("allow must be a boolean, not %s", ast.ValueName(v))
			}
			d.needsMessage = true
			d.decision.Denials = append(d.decision.Denials, policies.Denial{Message: "the policy does not allow it"})
		}
	case message:
		if s, ok := v.(ast.String); ok && strings.TrimSpace(string(s)) != "" {
			d.decision.Denials[len(d.decision.Denials)-1].Message = line(string(s))
		}
	case object:
		return d.object(v)
	}
	return nil
}

// object takes a value that has what rules give as its members.
func (d *decider) object(v ast.Value) error {
	if v == nil {
		return errors.New("entrypoint is undefined")
	}
	o, ok := v.(ast.Object)
	if !ok {
		return fmt.Errorf("entrypoint must be an object with any of %s, not %s", strings.Join(resultNames, ", "), ast.ValueName(v))
	}
	known := false
	for _, name := range append(resultNames[:len(resultNames):len(resultNames)], string(message)) {
		t := o.Get(ast.InternedTerm(name))
		if t == nil || role(name) == message && !d.needsMessage {
			continue
		}
		known = true
		if err := d.add(role(name), t.Value); err != nil {
			return err
		}
	}
	if !known {
		return fmt.Errorf("entrypoint has none of the members %s", strings.Join(resultNames, ", "))
	}
	return nil
}

// findings takes a collection of findings. Those of a set are sorted.
func (*decider) findings(r role, v ast.Value, take func(policies.Denial)) error {
	var err error
	each := func(t *ast.Term) {
		f, e := finding(r, t.Value)
		if e != nil {
			err = e
			return
		}
		take(f)
	}
	switch v := v.(type) {
	case nil:
	case ast.Set:
		for _, t := range v.Slice() {
			each(t)
		}
	case *ast.Array:
		v.Foreach(each)
	case ast.Object:
		v.Foreach(func(_, t *ast.Term) { each(t) })
	default:
		return fmt.Errorf("%s must be a set, array or object, not %s", r, ast.ValueName(v))
	}
	return err
}

func finding(r role, v ast.Value) (policies.Denial, error) {
	switch v := v.(type) {
	case ast.String:
		if f := (policies.Denial{Message: line(string(v))}); f.Message != "" {
			return f, nil
		}
		return policies.Denial{}, fmt.Errorf("%s has an empty message", r)
	case ast.Object:
		f := policies.Denial{Message: member(v, "msg"), Field: member(v, "field"), Reason: member(v, "reason")}
		if f.Message == "" {
			f.Message = member(v, "message")
		}
		if f.Message == "" {
			return f, fmt.Errorf("an object of %s must have a string msg", r)
		}
		if t := v.Get(ast.InternedTerm("code")); t != nil {
			n, ok := t.Value.(ast.Number)
			code, exact := n.Int()
			if !ok || !exact || code < 400 || code > 599 {
				return f, fmt.Errorf("code of %s must be an integer from 400 to 599, not %v", r, t)
			}
			f.Code = int32(code) //nolint:gosec // it was just bounded
		}
		if t := v.Get(ast.InternedTerm("details")); t != nil {
			var err error
			if f.Details, err = toDocument(t.Value); err != nil {
				return f, fmt.Errorf("details of %s: %w", r, err)
			}
		}
		return f, nil
	}
	return policies.Denial{}, fmt.Errorf("%s must have strings, or objects with msg, not %s", r, ast.ValueName(v))
}

func member(o ast.Object, name string) string {
	if t := o.Get(ast.InternedTerm(name)); t != nil {
		if s, ok := t.Value.(ast.String); ok {
			return line(string(s))
		}
	}
	return ""
}

// line makes text one line of bounded length.
func line(s string) string {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "\r\n") {
		s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
	}
	if len(s) > maxMessageBytes {
		s = s[:maxMessageBytes]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return strings.Clone(s) // it may share the memory of a document
}

// maxDetailsBytes bounds details.
const maxDetailsBytes = 64 << 10

// toDocument converts a value to JSON. Sets become arrays.
func toDocument(v ast.Value) (*document.Document, error) {
	if deep(v, 4*maxDetailsBytes) > 4*maxDetailsBytes {
		return nil, errors.New("value is too large")
	}
	native, err := ast.JSON(v)
	if err != nil {
		return nil, fmt.Errorf("value has no JSON: %w", err)
	}
	raw, err := json.Marshal(native)
	if err != nil {
		return nil, fmt.Errorf("value has no JSON: %w", err)
	}
	return document.Parse(raw)
}
