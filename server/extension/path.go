package extension

import (
	"strconv"
	"strings"

	"weir.dev/weir/abi/document"
)

// step is one step of a field path: a member, an element, or all elements.
type step struct {
	name  string
	index int // of an element, or one of the two below
}

const (
	stepMember = -1
	stepAll    = -2
)

// parsePath parses a path in the syntax of document.ParsePath.
func parsePath(text string) ([]step, error) {
	p, err := document.ParsePath(text)
	if err != nil {
		return nil, err
	}
	return steps(p.String()), nil
}

// steps splits a path in the one form that document.Path gives.
func steps(s string) []step {
	var out []step
	for s != "" {
		switch {
		case strings.HasPrefix(s, "[*]"):
			out = append(out, step{index: stepAll})
			s = s[3:]
		case strings.HasPrefix(s, "['"):
			var name strings.Builder
			i := 2
			for ; s[i] != '\''; i++ {
				if s[i] == '\\' {
					i++
				}
				name.WriteByte(s[i])
			}
			out = append(out, step{name: name.String(), index: stepMember})
			s = s[i+2:]
		case s[0] == '[':
			end := strings.IndexByte(s, ']')
			n, _ := strconv.Atoi(s[1:end])
			out = append(out, step{index: n})
			s = s[end+1:]
		default:
			s = strings.TrimPrefix(s, ".")
			end := strings.IndexAny(s, ".[")
			if end < 0 {
				end = len(s)
			}
			out = append(out, step{name: s[:end], index: stepMember})
			s = s[end:]
		}
	}
	return out
}

// match is one value that a path leads to.
type match struct {
	value document.Value
	// list that value is an element of, by [*], and its index; else Absent and -1.
	list  document.Value
	index int64
	steps []step // the concrete path, without [*]; valid until the next match
}

// walk calls yield for each value that path leads to from v, until it returns false.
func walk(v document.Value, path []step, yield func(match) bool) {
	m := match{index: -1, steps: make([]step, 0, len(path))}
	m.walk(v, path, yield)
}

func (m match) walk(v document.Value, path []step, yield func(match) bool) bool {
	for i, s := range path {
		switch s.index {
		case stepMember:
			v = v.Get(s.name)
		case stepAll:
			for n, e := range v.Elements() {
				next := m
				next.list, next.index = v, int64(n)
				next.steps = append(m.steps, step{index: n})
				if !next.walk(e, path[i+1:], yield) {
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
		m.steps = append(m.steps, s)
		m.list, m.index = document.Value{}, -1
	}
	m.value = v
	return yield(m)
}

// fieldPath renders steps as upstream's field.Path does: spec.containers[0].name,
// metadata.labels[app.kubernetes.io/name].
func fieldPath(parts ...[]step) string {
	var b strings.Builder
	for _, path := range parts {
		for _, s := range path {
			switch {
			case s.index == stepAll:
				b.WriteString("[*]")
			case s.index >= 0:
				b.WriteString("[" + strconv.Itoa(s.index) + "]")
			case strings.ContainsAny(s.name, `./[]'"`):
				b.WriteString("[" + s.name + "]")
			default:
				if b.Len() > 0 {
					b.WriteByte('.')
				}
				b.WriteString(s.name)
			}
		}
	}
	return b.String()
}

// editPath gives steps as document.Edit takes them.
func editPath(path []step) []string {
	out := make([]string, len(path))
	for i, s := range path {
		out[i] = s.name
		if s.index >= 0 {
			out[i] = strconv.Itoa(s.index)
		}
	}
	return out
}

// covers reports whether a change at path a can be seen at path b or below it.
func covers(a, b []step) bool {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] && a[i].index != stepAll && b[i].index != stepAll {
			return false
		}
	}
	return true
}
