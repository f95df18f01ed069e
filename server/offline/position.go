package offline

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a file, counted from 1, in characters. Zero: it is not known.
type Position struct{ Line, Column int }

// places finds the places of fields in the YAML that an object was read of.
type places struct {
	lines []string
	first int // line of the file where it begins
	root  *yaml.Node
}

// newPlaces reads the text of an object. Without a text, nothing is found.
func newPlaces(o *Object) *places {
	s := &places{lines: strings.Split(string(o.Text), "\n"), first: o.Line}
	var doc yaml.Node
	if yaml.Unmarshal(o.Text, &doc) == nil && len(doc.Content) == 1 {
		s.root = doc.Content[0]
	}
	return s
}

// at returns where a field stands: spec.validations[0].expression. Where it does not, that is where the nearest field
// above it is.
func (s *places) at(path string) Position {
	key, value := s.find(path)
	node := key
	if node == nil {
		node = value
	}
	if node == nil {
		return Position{}
	}
	return Position{node.Line + s.first - 1, node.Column}
}

// find returns the nodes of the name and value of a field, or of the nearest field above it that is there.
func (s *places) find(path string) (key, value *yaml.Node) {
	value = s.root
	for _, step := range steps(path) {
		if value == nil {
			break
		}
		k, v := child(value, step)
		if v == nil {
			break
		}
		key, value = k, v
	}
	return key, value
}

// child returns a member or element of a node; key is nil for an element.
func child(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i], n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
	case yaml.AliasNode:
		return child(n.Alias, step)
	default:
	}
	return nil, nil
}

// steps cuts a field path: spec.validations[0].expression, metadata.labels[a.b/c].
func steps(path string) []string {
	var list []string
	for path != "" {
		switch i := strings.IndexAny(path, ".["); {
		case i < 0:
			return append(list, path)
		case path[i] == '.':
			if i > 0 {
				list = append(list, path[:i])
			}
			path = path[i+1:]
		default:
			if i > 0 {
				list = append(list, path[:i])
			}
			end := strings.IndexByte(path[i:], ']')
			if end < 0 {
				return append(list, path[i+1:])
			}
			list = append(list, path[i+1:i+end])
			path = path[i+end+1:]
		}
	}
	return list
}

// within returns where a character of the text of a field stands: line and column are those of the text. A text is not in a
// file as it is: it is indented, folded or escaped. Its characters are looked for one after the other.
func (s *places) within(path string, line, column int) Position {
	_, node := s.find(path)
	if node == nil || node.Kind != yaml.ScalarNode || line < 1 || column < 1 {
		return s.at(path)
	}
	row, col := node.Line-1, 0
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		row++
	} else {
		col = runesBefore(s.line(row), node.Column-1)
		if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			col++
		}
	}
	text := []rune(s.line(row))
	next := func() bool { // to the next line of the file
		row, col = row+1, 0
		if row >= len(s.lines) {
			return false
		}
		text = []rune(s.line(row))
		return true
	}
	l, c := 1, 1
	for _, r := range node.Value {
		if l == line && c == column {
			break
		}
		if c++; r == '\n' {
			l, c = l+1, 1
		}
		if r == '\n' || r == ' ' || r == '\t' {
			// Spaces are where they are, or the end of a line that was folded; what follows is found anyway.
			if col < len(text) && text[col] == r {
				col++
			}
			continue
		}
		for {
			for col < len(text) && text[col] != r {
				col++
			}
			if col < len(text) {
				col++
				break
			}
			if !next() {
				return s.at(path)
			}
		}
	}
	for { // the character itself comes after spaces, perhaps in the next line
		for col < len(text) && (text[col] == ' ' || text[col] == '\t') {
			col++
		}
		if col < len(text) || !next() {
			break
		}
	}
	return Position{row + s.first, col + 1}
}

func (s *places) line(i int) string {
	if i < 0 || i >= len(s.lines) {
		return ""
	}
	return s.lines[i]
}

// runesBefore makes of a column in bytes one in characters. yaml counts characters; the two differ where it does not.
func runesBefore(text string, column int) int {
	return min(column, utf8.RuneCountInString(text))
}

// excerpt is a line of the file, for a caret below it.
func (s *places) excerpt(p Position) string { return s.line(p.Line - s.first) }
