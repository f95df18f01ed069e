package codec

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"
)

// list compares a list. Elements that are no structs hold all there is to
// them, so that the list can be replaced.
func (d *differ) list(p *plan, v reflect.Value, s *scanner) error {
	element := p.elem
	if element.kind == kindPointer {
		element = element.elem
	}
	if element.kind != kindStruct || s.peek() != '[' {
		same, err := d.same(p, v, s.value())
		if err != nil || same {
			return err
		}
		return d.set("replace", p, v)
	}
	start, patch, path, depth := s.pos, len(d.patch), len(d.path), d.depth
	inPlace, err := d.inPlace(p, element, v, s)
	if err != nil || inPlace {
		return err
	}
	s.pos, d.patch, d.path, d.depth = start, d.patch[:patch], d.path[:path], depth
	return d.rearranged(p, element, v, s.value())
}

// inPlace compares a list whose elements are where they were. It is false if
// they are not, or that cannot be told.
func (d *differ) inPlace(p, element *plan, v reflect.Value, s *scanner) (bool, error) {
	s.take('[')
	i := 0
	for more := !s.take(']'); more; more = s.take(',') {
		if i == v.Len() {
			return false, nil
		}
		e := v.Index(i)
		if e.Kind() == reflect.Pointer {
			if e.IsNil() {
				return false, nil
			}
			e = e.Elem()
		}
		d.pushIndex(i)
		patch := len(d.patch)
		d.depth++
		err := d.structure(element, e, s, true)
		d.depth--
		d.pop()
		if errors.Is(err, errMoved) || element.key < 0 && len(d.patch) > patch {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		i++
	}
	s.take(']')
	return i == v.Len(), nil
}

// rearranged compares a list whose elements may have been moved, added or
// removed.
func (d *differ) rearranged(p, element *plan, v reflect.Value, raw []byte) error {
	was := elements(raw)
	match, err := d.match(p, element, v, was)
	if err != nil {
		return err
	}
	if err := d.arrange(p, v, match, len(was)); err != nil {
		return err
	}
	for i, j := range match {
		if j < 0 {
			continue
		}
		d.pushIndex(i)
		if err := d.value(p.elem, v.Index(i), &scanner{data: was[j]}, true); err != nil {
			return err
		}
		d.pop()
	}
	return nil
}

// arrange writes the removals, additions and moves that bring n elements in
// the order of match: for each place the index it had, or -1.
func (d *differ) arrange(p *plan, v reflect.Value, match []int, n int) error {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if slices.Equal(order, match) {
		return nil
	}
	for i := n - 1; i >= 0; i-- {
		if !slices.Contains(match, i) {
			d.pushIndex(i)
			d.remove()
			d.pop()
			order = slices.Delete(order, i, i+1)
		}
	}
	for i, j := range match {
		if j < 0 {
			d.pushIndex(i)
			if err := d.set("add", p.elem, v.Index(i)); err != nil {
				return err
			}
			d.pop()
			order = slices.Insert(order, i, -1)
			continue
		}
		if from := slices.Index(order, j); from != i {
			d.move(from, i)
			order = slices.Insert(slices.Delete(order, from, from+1), i, j)
		}
	}
	return nil
}

// match says for each element of v which element of was it is, or -1.
func (d *differ) match(p, element *plan, v reflect.Value, was [][]byte) ([]int, error) {
	match := make([]int, v.Len())
	if element.key >= 0 && d.matchKeys(element, v, was, match) {
		return match, nil
	}
	// First those that stayed as and where they are, then those that only
	// moved.
	taken := make([]bool, len(was))
	open := 0
	for i := range match {
		match[i] = -1
		if i < len(was) && d.equal(p.elem, v.Index(i), was[i]) {
			match[i], taken[i] = i, true
		} else {
			open++
		}
	}
	if open == 0 {
		return match, nil
	}
	for i := range match {
		for j := 0; match[i] < 0 && j < len(was); j++ {
			if !taken[j] && d.equal(p.elem, v.Index(i), was[j]) {
				match[i], taken[j] = j, true
				open--
			}
		}
	}
	left := len(was) - (len(match) - open)
	if open == 0 || left == 0 {
		return match, nil
	}
	if len(match) == len(was) {
		for i := range match {
			if match[i] < 0 && !taken[i] {
				match[i], taken[i] = i, true
			}
		}
		return match, nil
	}
	for j, raw := range was {
		if !taken[j] && !element.knows(raw) {
			return nil, &Error{Path: fieldPath(d.path), Detail: "elements were changed while others were added or removed, and it cannot be told which is which: " +
				element.typ.String() + ` needs a field tagged weir:"key"`}
		}
	}
	return match, nil
}

// matchKeys matches by key. It is false if keys are not unique.
func (d *differ) matchKeys(element *plan, v reflect.Value, was [][]byte, match []int) bool {
	f := &element.fields[element.key]
	old := make([]string, len(was))
	for j, raw := range was {
		value := Get(raw, f.name)
		key := reflect.New(f.plan.typ).Elem()
		if !isAbsent(value) {
			dec := decoder{codec: d.codec, scanner: scanner{data: value}}
			if dec.decode(f.plan, key) != nil {
				return false
			}
		}
		old[j] = keyText(key)
		if slices.Contains(old[:j], old[j]) {
			return false
		}
	}
	now := make([]string, v.Len())
	for i := range now {
		e := v.Index(i)
		if e.Kind() == reflect.Pointer {
			if e.IsNil() {
				return false
			}
			e = e.Elem()
		}
		now[i] = keyText(f.of(e))
		if slices.Contains(now[:i], now[i]) {
			return false
		}
		if i < len(old) && old[i] == now[i] {
			match[i] = i
		} else {
			match[i] = slices.Index(old, now[i])
		}
	}
	return true
}

func keyText(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	return strconv.FormatInt(v.Int(), 10)
}

// equal tells whether a value says what raw says.
func (d *differ) equal(p *plan, v reflect.Value, raw []byte) bool {
	trial := differ{codec: d.codec, path: d.path, depth: d.depth}
	return trial.value(p, v, &scanner{data: raw}, true) == nil && len(trial.patch) == 0
}

// knows tells whether a value holds all there is in raw.
func (p *plan) knows(raw []byte) bool {
	if isAbsent(raw) {
		return true
	}
	switch p.kind {
	case kindPointer:
		return p.elem.knows(raw)
	case kindSlice, kindArray:
		for _, e := range elements(raw) {
			if !p.elem.knows(e) {
				return false
			}
		}
	case kindMap:
		known := true
		eachMember(raw, func(_ string, value []byte) bool {
			known = p.elem.knows(value)
			return known
		})
		return known
	case kindStruct:
		known := true
		eachMember(raw, func(name string, value []byte) bool {
			f, _ := p.field(name, 0)
			known = f != nil && f.plan.knows(value) || bytes.Equal(value, []byte("null"))
			return known
		})
		return known
	}
	return true
}
