package weir

import (
	"strconv"
	"strings"

	"weir.dev/weir/sdk/go/internal/codec"
)

// Object is an object that a hook reads by path and changes by path, without
// its being decoded. What is read is the object as it came: changes take
// effect when the hook has returned.
//
// Paths to be changed have members and indexes, and no wildcards.
type Object struct {
	View
	patch []byte // operations, opened with [ or ,
	edits []edit
}

// edit is a change of what is at a path: to value, or nil if it was deleted.
type edit struct {
	steps []step
	value []byte
}

// step goes down to a member, or to an element.
type step struct {
	name    string // an index in decimal
	element bool
}

// Set sets the value at a path; a []byte is JSON. Objects on the way that do
// not exist are made; elements have to exist.
func (o *Object) Set(path string, value any) {
	steps := parsePath(path)
	raw := o.ctx.encode(value)
	n := 1 // steps that lead to what is added
	for n < len(steps) && o.exists(steps[:n]) {
		n++
	}
	for i := len(steps) - 1; i >= n; i-- {
		if steps[i].element {
			panic(failure("set " + path + ": the list does not exist"))
		}
		b := append(codec.AppendString([]byte{'{'}, steps[i].name), ':')
		raw = append(append(b, raw...), '}')
	}
	op := "add"
	if steps[n-1].element {
		if !o.exists(steps[:n]) {
			panic(failure("set " + path + ": the element does not exist"))
		}
		op = "replace"
	}
	o.record(op, steps[:n], raw)
}

// Delete deletes the member at a path, if there is one.
func (o *Object) Delete(path string) {
	steps := parsePath(path)
	if steps[len(steps)-1].element {
		// What follows would move up, which reads and later edits do not know.
		panic(failure("delete " + path + ": an element of a list; set the list instead"))
	}
	if o.exists(steps) {
		o.record("remove", steps, nil)
	}
}

// record writes an operation of the patch.
func (o *Object) record(op string, steps []step, value []byte) {
	b := o.patch
	if len(b) == 0 {
		b = append(b, '[')
	} else {
		b = append(b, ',')
	}
	b = append(append(append(b, `{"op":"`...), op...), `","path":`...)
	pointer := ""
	for _, s := range steps {
		pointer += "/" + strings.ReplaceAll(strings.ReplaceAll(s.name, "~", "~0"), "/", "~1")
	}
	b = codec.AppendString(b, pointer)
	if value != nil {
		b = append(append(b, `,"value":`...), value...)
	}
	o.patch = append(b, '}')
	o.edits = append(o.edits, edit{steps: steps, value: value})
}

// exists tells whether there is a value at a path now. null is none.
func (o *Object) exists(steps []step) bool {
	raw, edited := o.edited(steps)
	if !edited {
		raw = o.Raw(joinPath(steps))
	}
	return len(raw) > 0 && raw[0] != 'n'
}

// edited finds what the last edit left at a path.
func (o *Object) edited(steps []step) (raw []byte, edited bool) {
	for i := len(o.edits) - 1; i >= 0; i-- {
		e := o.edits[i]
		if len(e.steps) > len(steps) || !samePath(e.steps, steps[:len(e.steps)]) {
			continue
		}
		raw := e.value
		for _, s := range steps[len(e.steps):] {
			if s.element {
				index, _ := strconv.Atoi(s.name)
				raw = codec.Element(raw, index)
			} else {
				raw = codec.Get(raw, s.name)
			}
		}
		return raw, true
	}
	return nil, false
}

func samePath(a, b []step) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// joinPath spells a path for the host.
func joinPath(steps []step) string {
	b := []byte{}
	for _, s := range steps {
		switch {
		case s.element:
			b = append(append(append(b, '['), s.name...), ']')
		case !plainName(s.name):
			quoted := strings.ReplaceAll(strings.ReplaceAll(s.name, `\`, `\\`), `'`, `\'`)
			b = append(append(append(b, `['`...), quoted...), `']`...)
		default:
			if len(b) > 0 {
				b = append(b, '.')
			}
			b = append(b, s.name...)
		}
	}
	return string(b)
}

// memberPath spells the path of a member, of a member.
func memberPath(parent, name string) string {
	switch {
	case !plainName(name) && parent == "":
		return joinPath([]step{{name: name}})
	case !plainName(name):
		return joinPath([]step{{name: parent}, {name: name}})
	case parent == "":
		return name
	}
	return parent + "." + name
}

// plainName tells whether a name needs no quotes in a path.
func plainName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || strings.IndexByte(`.[]'"\*`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// parsePath splits a path. One that does not parse makes the hook fail.
func parsePath(path string) []step {
	bad := func(why string) { panic(failure("path " + strconv.Quote(path) + ": " + why)) }
	var steps []step
	rest := path
	for rest != "" {
		if rest[0] != '[' {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 || rest[:end] == "*" {
				bad("not a member")
			}
			steps = append(steps, step{name: rest[:end]})
			if rest = rest[end:]; rest != "" && rest[0] == '.' {
				if rest = rest[1:]; rest == "" || rest[0] == '[' {
					bad("ends with a dot")
				}
			}
			continue
		}
		if len(rest) > 1 && (rest[1] == '\'' || rest[1] == '"') {
			name, n := quotedName(rest[1:])
			if n == 0 || !strings.HasPrefix(rest[1+n:], "]") {
				bad("a quote does not end")
			}
			steps = append(steps, step{name: name})
			rest = rest[n+2:]
		} else {
			end := strings.IndexByte(rest, ']')
			if end < 2 || strings.Trim(rest[1:end], "0123456789") != "" {
				bad("not an index")
			}
			steps = append(steps, step{name: rest[1:end], element: true})
			rest = rest[end+1:]
		}
		if rest != "" && rest[0] == '.' {
			if rest = rest[1:]; rest == "" || rest[0] == '[' {
				bad("ends with a dot")
			}
		}
	}
	if len(steps) == 0 {
		bad("is empty")
	}
	return steps
}

// quotedName reads a quoted name with backslash escapes and returns how many
// bytes it takes, 0 if it does not end.
func quotedName(s string) (string, int) {
	var b []byte
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case s[0]:
			return string(b), i + 1
		case '\\':
			if i++; i == len(s) {
				return "", 0
			}
		}
		b = append(b, s[i])
	}
	return "", 0
}
