package lookup

import (
	"slices"
	"strings"

	"weir.dev/weir/abi/document"
)

// selector is a list of requirements that all have to hold. It knows what
// Kubernetes' selectors of labels know, apart from < and >.
type selector []requirement

type requirement struct {
	key    []string // path of members
	values []string
	not    bool
	exists bool // only whether there is a value
}

func (s selector) match(d *document.Document) bool {
	for _, r := range s {
		v := d.Get(r.key...)
		holds := v.Exists()
		if !r.exists {
			text := v.String()
			if v.Exists() && v.Kind() != document.String {
				text = string(v.Raw())
			}
			holds = holds && slices.Contains(r.values, text)
		}
		if holds == r.not {
			return false
		}
	}
	return true
}

// parseSelector parses a selector of labels: a=b, a==b, a!=b, a in (b,c),
// a notin (b,c), a, !a, with commas between them.
func parseSelector(text string) (selector, error) {
	var s selector
	for rest := strings.TrimSpace(text); rest != ""; {
		part, next, err := requirementOf(rest)
		if err != nil {
			return nil, err
		}
		r, err := parseRequirement(part)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
		if rest = next; rest == "," {
			return nil, errSelector
		}
		rest = strings.TrimSpace(strings.TrimPrefix(rest, ","))
	}
	return s, nil
}

// requirementOf cuts the first requirement off, at a comma outside of parentheses.
func requirementOf(text string) (part, rest string, err error) {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i:]), nil
			}
		}
	}
	if depth != 0 {
		return "", "", errSelector
	}
	return strings.TrimSpace(text), "", nil
}

func parseRequirement(part string) (requirement, error) {
	label := func(key string) (requirement, error) {
		key = strings.TrimSpace(key)
		if key == "" || strings.ContainsAny(key, " ()=!,") {
			return requirement{}, errSelector
		}
		return requirement{key: []string{"metadata", "labels", key}}, nil
	}
	if open := strings.IndexByte(part, '('); open >= 0 {
		head, list := strings.Fields(part[:open]), strings.TrimSpace(part[open:])
		if len(head) != 2 || head[1] != "in" && head[1] != "notin" || !strings.HasSuffix(list, ")") {
			return requirement{}, errSelector
		}
		r, err := label(head[0])
		for value := range strings.SplitSeq(list[1:len(list)-1], ",") {
			r.values = append(r.values, strings.TrimSpace(value))
		}
		r.not = head[1] == "notin"
		return r, err
	}
	if key, ok := strings.CutPrefix(part, "!"); ok {
		r, err := label(key)
		r.exists, r.not = true, true
		return r, err
	}
	key, value, not, ok := comparison(part)
	r, err := label(key)
	r.exists, r.not, r.values = !ok, not, []string{value}
	if strings.ContainsAny(value, " ()=!") {
		err = errSelector
	}
	return r, err
}

// comparison splits a=b, a==b and a!=b.
func comparison(part string) (key, value string, not, ok bool) {
	for _, operator := range []string{"!=", "==", "="} {
		if key, value, ok = strings.Cut(part, operator); ok {
			return strings.TrimSpace(key), strings.TrimSpace(value), operator == "!=", true
		}
	}
	return part, "", false, false
}

// parseFields parses a selector of fields: a=b, a==b, a!=b.
func parseFields(text string) (selector, error) {
	if text == "" {
		return nil, nil
	}
	var s selector
	for part := range strings.SplitSeq(text, ",") {
		key, value, not, ok := comparison(part)
		if !ok || key == "" {
			return nil, errSelector
		}
		s = append(s, requirement{key: strings.Split(key, "."), values: []string{value}, not: not})
	}
	return s, nil
}
