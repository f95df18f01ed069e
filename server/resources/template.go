package resources

import (
	"fmt"
	"strings"
	"time"
)

// template is a compiled Column.Template.
type template struct {
	parts []part
}

// part is a text or an expression.
type part struct {
	text         string
	alternatives []alternative // when not nil, text is empty
}

type alternative struct {
	literal string // used when path is nil and whole is false
	path    *jsonPath
	whole   bool // the object itself
	calls   []call
}

// call is a function with its arguments, parsed as the function needs them.
type call struct {
	fn   function
	args []string
	n    int
	path *jsonPath
	tmpl *template
}

// scope is what functions may look at beside their values.
type scope struct {
	root any
	now  time.Time
}

func parseTemplate(source string) (*template, error) {
	t := &template{}
	for rest := source; rest != ""; {
		open := strings.IndexByte(rest, '{')
		if open < 0 {
			open = len(rest)
		}
		if open > 0 {
			t.parts = append(t.parts, part{text: rest[:open]})
		}
		if rest = rest[open:]; rest == "" {
			break
		}
		end := closingBrace(rest)
		if end < 0 {
			return nil, fmt.Errorf("template %q: brace is not closed", source)
		}
		alternatives, err := parseExpression(rest[1:end])
		if err != nil {
			return nil, fmt.Errorf("template %q: %w", source, err)
		}
		t.parts = append(t.parts, part{alternatives: alternatives})
		rest = rest[end+1:]
	}
	return t, nil
}

// closingBrace finds the brace that closes the one s begins with. Quoted text
// is skipped.
func closingBrace(s string) int {
	quoted := false
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\'':
			quoted = !quoted
		case s[i] == '}' && !quoted:
			return i
		}
	}
	return -1
}

func parseExpression(source string) ([]alternative, error) {
	tokens, err := tokenize(source)
	if err != nil {
		return nil, err
	}
	var alternatives []alternative
	for {
		end := indexToken(tokens, "??")
		a, err := parseAlternative(tokens[:end])
		if err != nil {
			return nil, err
		}
		alternatives = append(alternatives, a)
		if end == len(tokens) {
			return alternatives, nil
		}
		tokens = tokens[end+1:]
	}
}

func parseAlternative(tokens []token) (alternative, error) {
	a := alternative{}
	end := indexToken(tokens, "|")
	if end != 1 {
		return a, fmt.Errorf("expression: want one path or text before functions")
	}
	switch source := tokens[0]; {
	case source.quoted:
		a.literal = source.text
	case source.text == ".":
		a.whole = true
	case strings.HasPrefix(source.text, "."):
		p, err := parsePath(source.text)
		if err != nil {
			return a, err
		}
		a.path = p
	default:
		return a, fmt.Errorf("expression: %q is neither a path nor text", source.text)
	}
	for tokens = tokens[end:]; len(tokens) > 0; {
		tokens = tokens[1:]
		end := indexToken(tokens, "|")
		c, err := parseCall(tokens[:end])
		if err != nil {
			return a, err
		}
		a.calls = append(a.calls, c)
		tokens = tokens[end:]
	}
	return a, nil
}

// token is a word or, with quoted set, the content of a quoted text.
type token struct {
	text   string
	quoted bool
}

func indexToken(tokens []token, text string) int {
	for i, t := range tokens {
		if !t.quoted && t.text == text {
			return i
		}
	}
	return len(tokens)
}

// tokenize splits at white space; quotes inside brackets belong to a path.
func tokenize(source string) ([]token, error) {
	var tokens []token
	for rest := strings.TrimLeft(source, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if rest[0] == '\'' {
			var text strings.Builder
			i := 1
			for ; i < len(rest); i++ {
				if rest[i] != '\'' {
					text.WriteByte(rest[i])
					continue
				}
				if i+1 == len(rest) || rest[i+1] != '\'' {
					break
				}
				text.WriteByte('\'')
				i++
			}
			if i >= len(rest) {
				return nil, fmt.Errorf("expression %q: quote is not closed", source)
			}
			tokens = append(tokens, token{text.String(), true})
			rest = rest[i+1:]
			continue
		}
		depth, end := 0, len(rest)
		for i := range len(rest) {
			if rest[i] == '[' {
				depth++
			} else if rest[i] == ']' {
				depth--
			} else if rest[i] == ' ' && depth == 0 {
				end = i
				break
			}
		}
		tokens = append(tokens, token{text: rest[:end]})
		rest = rest[end:]
	}
	return tokens, nil
}

func (t *template) render(root any, now time.Time) string {
	if len(t.parts) == 1 && t.parts[0].alternatives == nil {
		return t.parts[0].text
	}
	var out strings.Builder
	s := scope{root, now}
	for i := range t.parts {
		out.WriteString(t.parts[i].text)
		for j := range t.parts[i].alternatives {
			if values := t.parts[i].alternatives[j].values(s); len(values) > 0 {
				out.WriteString(joinText(values, ","))
				break
			}
		}
	}
	return out.String()
}

// values evaluates an alternative.
func (a *alternative) values(s scope) []any {
	var values []any
	switch {
	case a.path != nil:
		values = present(a.path.all(s.root))
	case a.whole:
		values = present([]any{s.root})
	default:
		values = []any{a.literal}
	}
	for i := range a.calls {
		values = a.calls[i].fn.apply(s, values, &a.calls[i])
	}
	return values
}

// present drops nulls and empty strings.
func present(values []any) []any {
	kept := values[:0]
	for _, value := range values {
		if value != nil && value != "" {
			kept = append(kept, value)
		}
	}
	return kept
}

func joinText(values []any, sep string) string {
	if len(values) == 1 {
		return textOf(values[0])
	}
	parts := make([]string, len(values))
	for i, value := range values {
		parts[i] = textOf(value)
	}
	return strings.Join(parts, sep)
}

func textOf(value any) string {
	s, _ := text(value).(string)
	return s
}
