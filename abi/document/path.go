package document

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Path names values in a document. The zero Path names the document itself.
type Path struct {
	steps []step
}

// step leads from a value to its children. Exactly one of its kinds is meant.
type step struct {
	name  string // a member, when index is stepName
	index int    // an element, stepName, or stepAll
}

const (
	stepName = -1
	stepAll  = -2
)

// PathError reports a text that is no path.
type PathError struct {
	Path   string
	Offset int // of the byte in Path that is wrong; its length when the text ends too early
	Msg    string
}

// Error implements error.
func (e *PathError) Error() string {
	return fmt.Sprintf("path %s: offset %d: %s", quoteText(e.Path), e.Offset, e.Msg)
}

// ParsePath returns the Path that text spells: names separated by points, each
// followed by any number of brackets.
//
//	spec.template.spec.containers[0].image   a name, an index counted from 0
//	spec.containers[*].name                  every element of an array, or member of an object
//	metadata.labels['app.kubernetes.io/x']   any name, in ' or ", in which \ precedes ' " and \
//	.spec.replicas                           a leading point changes nothing
//	metadata.labels.app\.kubernetes\.io/x    \ takes the next character for itself
//
// The empty text is the path of the document itself. The error is a *PathError.
func ParsePath(text string) (Path, error) {
	p := pathParser{text: text}
	if strings.HasPrefix(text, ".") {
		p.at++
	}
	for wantName := p.at > 0 || (text != "" && text[0] != '['); p.at < len(text) || wantName; {
		switch {
		case wantName:
			if err := p.name(); err != nil {
				return Path{}, err
			}
			wantName = false
		case text[p.at] == '[':
			if err := p.bracket(); err != nil {
				return Path{}, err
			}
		case text[p.at] == '.':
			p.at++
			wantName = true
		default:
			return Path{}, p.fail(p.at, "want '.' or '[', have "+quoteChar(text[p.at]))
		}
	}
	return Path{p.steps}, nil
}

type pathParser struct {
	text  string
	at    int
	steps []step
}

func (p *pathParser) fail(at int, msg string) error {
	return &PathError{Path: p.text, Offset: at, Msg: msg}
}

// name reads an unquoted name.
func (p *pathParser) name() error {
	start := p.at
	var unescaped []byte
	plain := p.at
	for p.at < len(p.text) && !strings.ContainsRune(".[", rune(p.text[p.at])) {
		switch c := p.text[p.at]; {
		case c == '\\':
			if p.at+1 == len(p.text) {
				return p.fail(p.at, `a character has to follow '\'`)
			}
			unescaped = append(unescaped, p.text[plain:p.at]...)
			plain = p.at + 1
			p.at += 2
			continue
		case c <= ' ' || strings.IndexByte(`]'"*`, c) >= 0:
			return p.fail(p.at, "unexpected "+quoteChar(c)+" in a name, which may be quoted: ['…']")
		}
		p.at++
	}
	if p.at == start {
		return p.fail(start, "want a name")
	}
	p.steps = append(p.steps, step{name: string(unescaped) + p.text[plain:p.at], index: stepName})
	return nil
}

// bracket reads what begins with a bracket.
func (p *pathParser) bracket() error {
	open := p.at
	p.at++
	var s step
	switch {
	case p.at == len(p.text):
		return p.fail(p.at, "'[' is not closed")
	case p.text[p.at] == '*':
		s.index = stepAll
		p.at++
	case p.text[p.at] == '\'' || p.text[p.at] == '"':
		name, err := p.quoted()
		if err != nil {
			return err
		}
		s = step{name: name, index: stepName}
	case p.text[p.at] >= '0' && p.text[p.at] <= '9':
		start := p.at
		for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
			p.at++
		}
		index, ok := parseIndex(p.text[start:p.at])
		if !ok {
			return p.fail(start, "invalid index "+quoteText(p.text[start:p.at]))
		}
		s.index = index
	default:
		return p.fail(p.at, "want an index, '*' or a quoted name, have "+quoteChar(p.text[p.at]))
	}
	switch {
	case p.at == len(p.text):
		return p.fail(open, "'[' is not closed")
	case p.text[p.at] != ']':
		return p.fail(p.at, "want ']', have "+quoteChar(p.text[p.at]))
	}
	p.at++
	p.steps = append(p.steps, s)
	return nil
}

// quoted reads a quoted name.
func (p *pathParser) quoted() (string, error) {
	open := p.at
	var name []byte
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case p.text[open]:
			p.at++
			return string(name), nil
		case '\\':
			p.at++
			if p.at == len(p.text) || strings.IndexByte(`'"\`, p.text[p.at]) < 0 {
				return "", p.fail(p.at-1, `want ', " or \ behind '\'`)
			}
			name = append(name, p.text[p.at])
		default:
			name = append(name, c)
		}
	}
	return "", p.fail(open, "quote is not closed")
}

// parseIndex returns the index of an element that text spells, in decimal and without
// leading zeros.
func parseIndex(text string) (int, bool) {
	i, err := strconv.ParseUint(text, 10, 31)
	return int(i), err == nil && (len(text) == 1 || text[0] != '0')
}

// String returns the path as ParsePath reads it.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p.steps {
		switch {
		case s.index == stepAll:
			b.WriteString("[*]")
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		case isPlainName(s.name):
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		default:
			b.WriteString("['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s.name) + "']")
		}
	}
	return b.String()
}

func isPlainName(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || strings.IndexByte(`.[]'"*\`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// Query returns the values p names, seen from v, in the order of the document.
// A path that leads nowhere yields none.
func (v Value) Query(p Path) iter.Seq[Value] {
	return func(yield func(Value) bool) { v.query(p.steps, yield) }
}

// QueryFirst returns the first value p names, seen from v, or Absent.
func (v Value) QueryFirst(p Path) Value {
	for match := range v.Query(p) {
		return match
	}
	return Value{}
}

// query yields the values steps lead to; it returns false when yield did.
func (v Value) query(steps []step, yield func(Value) bool) bool {
	for i, s := range steps {
		switch s.index {
		case stepName:
			v = v.member(s.name)
		case stepAll:
			// Recursion is no deeper than MaxDepth: each wildcard goes one down.
			for _, e := range v.Elements() {
				if !e.query(steps[i+1:], yield) {
					return false
				}
			}
			for c := membersOf(v); c.more(); c.advance() {
				if !c.value().query(steps[i+1:], yield) {
					return false
				}
			}
			return true
		default:
			v = v.Index(s.index)
		}
		if !v.Exists() {
			return true
		}
	}
	return !v.Exists() || yield(v)
}
