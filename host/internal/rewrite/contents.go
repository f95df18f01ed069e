package rewrite

import (
	"fmt"
	"strconv"
	"strings"
)

func (m *module) exportSection(r *reader) []byte {
	n := 0
	if len(r.b) > 0 {
		n = r.count("exports", maxExports)
	}
	var out []byte
	memory := false
	seen := make(map[string]bool, n)
	for range n {
		name := r.name()
		kind := r.byte()
		if r.err != nil {
			return nil
		}
		if strings.HasPrefix(name, Prefix) {
			r.fail(&Error{Kind: ABI, Msg: fmt.Sprintf("export %q: the prefix %s is reserved", name, Prefix)})
			return nil
		}
		if seen[name] {
			r.fail(malformed("export %q twice", name))
			return nil
		}
		seen[name] = true
		out = append(appendName(out, name), kind)
		switch kind {
		case 0:
			i := r.u32()
			if i >= uint32(len(m.imported)+len(m.defined)) {
				r.fail(malformed("function %d does not exist", i))
				return nil
			}
			m.exports[name] = m.funcTypeOf(m.typeOfFunc(i))
			if i >= m.refill {
				i++
			}
			out = appendU32(out, i)
		case 1, 2, 3:
			i := r.u32()
			if i >= uint32([]int{0, m.tables, m.memories, len(m.globals)}[kind]) && r.err == nil {
				r.fail(malformed("export %q of what does not exist", name))
				return nil
			}
			memory = memory || kind == 2 && name == "memory"
			out = appendU32(out, i)
		default:
			r.fail(malformed("export %q of unknown kind %d", name, kind))
		}
	}
	if r.err == nil && !memory && !m.opts.AnyMemory {
		r.fail(&Error{Kind: ABI, Msg: "its memory is not exported as \"memory\""})
		return nil
	}
	add := func(name string, kind byte, i uint32) {
		out = append(appendName(out, name), kind)
		out = appendU32(out, i)
		n++
	}
	add(ExportFuel, 3, m.fuel)
	add(ExportFlag, 3, m.flag)
	add(ExportDepth, 3, m.depth)
	for i, g := range m.globals {
		if g.mutable {
			add(ExportGlobal+strconv.Itoa(i), 3, uint32(i))
		}
	}
	if b := m.sections[secStart]; len(b) > 0 {
		s := &reader{b: b}
		i := m.funcIndex(s)
		if s.err != nil {
			r.fail(s.err)
			return nil
		}
		original := i
		if i > m.refill {
			original--
		}
		if t := m.types[m.typeOfFunc(original)]; len(t.params)+len(t.results) > 0 {
			r.fail(malformed("the start function has parameters or results"))
			return nil
		}
		m.start = int64(i)
		add(ExportStart, 0, i)
	}
	return append(appendU32(nil, uint32(n)), out...)
}

// startSection checks the start function, which was exported instead.
func (m *module) startSection(r *reader) []byte {
	if len(r.b) > 0 {
		r.u32()
	}
	return nil
}

func (m *module) elementSection(r *reader) []byte {
	if len(r.b) == 0 {
		return nil
	}
	n := r.count("element segments", maxSegments)
	out := appendU32(nil, uint32(n))
	for range n {
		flag := r.u32()
		if flag > 7 {
			r.fail(malformed("element segment of kind %d", flag))
		}
		out = appendU32(out, flag)
		if flag&1 == 0 { // active
			if flag&2 != 0 {
				out = appendU32(out, r.u32()) // table
			}
			out = m.constExpr(r, out, len(m.globals))
		}
		if flag&3 != 0 {
			out = append(out, r.byte()) // element kind or type
		}
		k := r.count("elements", maxTable)
		out = appendU32(out, uint32(k))
		for range k {
			if r.err != nil {
				return nil
			}
			if flag&4 == 0 {
				out = appendU32(out, m.funcIndex(r))
			} else {
				out = m.constExpr(r, out, len(m.globals))
			}
		}
	}
	return out
}

func (m *module) dataCountSection(r *reader) []byte {
	if len(r.b) > 0 {
		r.u32()
	}
	return r.b
}

func (m *module) dataSection(r *reader) []byte {
	if len(r.b) == 0 {
		return nil
	}
	n := r.count("data segments", maxSegments)
	out := make([]byte, 0, len(r.b)+8)
	out = appendU32(out, uint32(n))
	for range n {
		flag := r.u32()
		out = appendU32(out, flag)
		switch flag {
		case 0:
			out = m.constExpr(r, out, len(m.globals))
		case 1:
		case 2:
			out = appendU32(out, r.u32())
			out = m.constExpr(r, out, len(m.globals))
		default:
			r.fail(malformed("data segment of kind %d", flag))
		}
		b := r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		out = appendU32(out, uint32(len(b)))
		out = append(out, b...)
	}
	return out
}
