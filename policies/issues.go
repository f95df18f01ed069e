package policies

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Issue is one thing that is wrong with a source.
type Issue struct {
	// Path says in which expression or field.
	Path string
	// Text of the expression; empty when the issue is with a field that is none.
	Text string
	// Line and Column of Text, counted from 1, in characters. 0: the whole.
	Line, Column int
	Message      string
	// Missing is set when the field is there to be filled in.
	Missing bool
}

// String renders the issue. With a position it shows the line and a caret below it:
//
//	spec.layers[0].cel.validations[0].expression:1:8: undeclared reference to 'objekt'
//	 | true && objekt.spec.replicas > 0
//	 | ........^
func (i Issue) String() string {
	if i.Line < 1 || i.Column < 1 {
		return i.Path + ": " + i.Message
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s", i.Path, i.Line, i.Column, i.Message)
	lines := strings.Split(i.Text, "\n")
	if i.Line > len(lines) {
		return b.String()
	}
	line := strings.ReplaceAll(lines[i.Line-1], "\t", " ")
	dots := min(i.Column-1, utf8.RuneCountInString(line))
	b.WriteString("\n | " + line + "\n | " + strings.Repeat(".", dots) + "^")
	return b.String()
}

// Issues is an error with at least one issue.
type Issues []Issue

// Error implements error: all issues, one below the other.
func (s Issues) Error() string {
	texts := make([]string, len(s))
	for i := range s {
		texts[i] = s[i].String()
	}
	return strings.Join(texts, "\n")
}

// Err returns s as an error, nil when there are none.
func (s Issues) Err() error {
	if len(s) == 0 {
		return nil
	}
	return s
}
