package rewrite

import (
	"fmt"
	"slices"
)

func validValueType(t byte) bool {
	return t >= 0x7b && t <= I32 || t == 0x70 || t == 0x6f // numbers, v128, references
}

func (m *module) typeSection(r *reader) []byte {
	if len(r.b) == 0 {
		return nil
	}
	n := r.count("types", maxTypes)
	from := r.pos
	for range n {
		if form := r.byte(); form != 0x60 && r.err == nil {
			r.fail(malformed("type form %#x is not supported", form))
		}
		var t funcType
		t.params = r.bytes(uint32(r.count("parameters", maxParams)))
		t.results = r.bytes(uint32(r.count("results", maxParams)))
		for _, v := range slices.Concat(t.params, t.results) {
			if !validValueType(v) {
				r.fail(malformed("value type %#x is not supported", v))
			}
		}
		m.types = append(m.types, t)
	}
	return r.b[from:r.pos]
}

// finishTypes puts the rewriter's own types behind the module's.
func (m *module) finishTypes(body []byte) []byte {
	out := appendU32(nil, uint32(len(m.types)+1+len(m.extraTypes)))
	out = append(out, body...)
	out = append(out, 0x60, 1, I64, 1, I64)
	for _, t := range m.extraTypes {
		out = append(out, t...)
	}
	return out
}

// wrapperType is the index of the type func() results.
func (m *module) wrapperType(results []byte) uint32 {
	if i, ok := m.wrappers[string(results)]; ok {
		return i
	}
	t := appendU32([]byte{0x60, 0}, uint32(len(results)))
	i := m.refillTypeID + 1 + uint32(len(m.extraTypes))
	m.extraTypes = append(m.extraTypes, append(t, results...))
	m.wrappers[string(results)] = i
	return i
}

func (m *module) funcTypeOf(index uint32) FuncType {
	t := m.types[index]
	return FuncType{Params: string(t.params), Results: string(t.results)}
}

func (m *module) importSection(r *reader) []byte {
	m.refillTypeID = uint32(len(m.types))
	n := 0
	from := 0
	if len(r.b) > 0 {
		n = r.count("imports", maxImports)
		from = r.pos
	}
	for range n {
		mod, name := r.name(), r.name()
		kind := r.byte()
		if r.err != nil {
			return nil
		}
		if kind != 0 {
			what := "a thing of unknown kind"
			if kind < 5 {
				what = [...]string{"", "a table", "a memory", "a global", "a tag"}[kind]
			}
			r.fail(&Error{Kind: Import, Msg: fmt.Sprintf("%q.%q is %s: only functions can be imported", mod, name, what)})
			return nil
		}
		t := r.u32()
		if t >= uint32(len(m.types)) {
			r.fail(malformed("type %d does not exist", t))
			return nil
		}
		if err := m.opts.Import(mod, name, m.funcTypeOf(t)); err != nil {
			r.fail(&Error{Kind: Import, Msg: err.Error(), Err: err})
			return nil
		}
		m.imported = append(m.imported, t)
		if in := (ImportName{Module: mod, Name: name}); !slices.Contains(m.importNames, in) {
			m.importNames = append(m.importNames, in)
		}
	}
	m.refill = uint32(len(m.imported))
	out := appendU32(nil, uint32(n+1))
	out = append(out, r.b[from:r.pos]...)
	out = appendName(out, ImportModule)
	out = appendName(out, ImportRefill)
	out = append(out, 0)
	return appendU32(out, m.refillTypeID)
}

func (m *module) functionSection(r *reader) []byte {
	if len(r.b) == 0 {
		return nil
	}
	n := r.count("functions", maxFunctions)
	for range n {
		t := r.u32()
		if t >= uint32(len(m.types)) && r.err == nil {
			r.fail(malformed("type %d does not exist", t))
		}
		m.defined = append(m.defined, t)
	}
	return r.b
}

// limits reads the limits of a table or memory.
func (r *reader) limits() (lo uint32, hi uint32, hasHi bool) {
	switch flag := r.byte(); flag {
	case 0:
		return r.u32(), 0, false
	case 1:
		lo, hi = r.u32(), r.u32()
		if hi < lo {
			r.fail(malformed("a maximum of %d below the minimum of %d", hi, lo))
		}
		return lo, hi, true
	default:
		r.fail(malformed("limits of kind %#x (shared, 64 bit) are not supported", flag))
		return 0, 0, false
	}
}

func (m *module) tableSection(r *reader) []byte {
	if len(r.b) == 0 {
		return nil
	}
	n := r.count("tables", maxTables)
	out := appendU32(nil, uint32(n))
	for range n {
		ref := r.byte()
		lo, hi, ok := r.limits()
		if r.err != nil {
			return nil
		}
		if lo > maxTable {
			r.fail(&Error{Kind: Limit, Msg: fmt.Sprintf("table of %d entries, more than %d", lo, maxTable)})
			return nil
		}
		if !ok || hi > maxTable {
			hi = maxTable
		}
		out = append(out, ref, 1)
		out = appendU32(out, lo)
		out = appendU32(out, hi)
	}
	m.tables = n
	return out
}

func (m *module) memorySection(r *reader) []byte {
	n := 0
	if len(r.b) > 0 {
		n = r.count("memories", 16)
	}
	if n == 0 && m.opts.AnyMemory {
		return nil
	}
	if n != 1 {
		r.fail(&Error{Kind: ABI, Msg: fmt.Sprintf("%d memories of its own, want one", n)})
		return nil
	}
	lo, hi, ok := r.limits()
	if r.err != nil {
		return nil
	}
	if lo > m.opts.MemoryPages {
		r.fail(&Error{Kind: Memory, Msg: fmt.Sprintf("asks for %d KiB of memory, more than %d KiB", uint64(lo)*64, uint64(m.opts.MemoryPages)*64)})
		return nil
	}
	if ok && hi > maxPages {
		r.fail(malformed("a memory maximum of %d pages", hi))
		return nil
	}
	if !ok || hi > m.opts.MemoryPages {
		hi = m.opts.MemoryPages
	}
	m.memory, m.memories = lo, 1
	out := []byte{1, 1}
	out = appendU32(out, lo)
	return appendU32(out, hi+1)
}

func (m *module) globalSection(r *reader) []byte {
	n := 0
	if len(r.b) > 0 {
		n = r.count("globals", maxGlobals)
	}
	out := appendU32(nil, uint32(n+3))
	for i := range n {
		t, mut := r.byte(), r.byte()
		if r.err != nil {
			return nil
		}
		if !validValueType(t) || mut > 1 {
			r.fail(malformed("global %d has no valid type", i))
			return nil
		}
		out = append(out, t, mut)
		out = m.constExpr(r, out, i)
		m.globals = append(m.globals, global{valType: t, mutable: mut == 1})
		if mut == 1 && (t < F64 || t > I32) {
			m.resettable = false
		}
	}
	m.fuel, m.flag, m.depth = uint32(n), uint32(n)+1, uint32(n)+2
	out = append(out, I64, 1, 0x42, 0, opEnd)
	out = append(out, I32, 1, 0x41, 0, opEnd)
	return append(out, I32, 1, 0x41, 0, opEnd)
}

// constExpr copies a constant expression to out, with function indexes
// moved. It may use the globals before the given one.
func (m *module) constExpr(r *reader, out []byte, globals int) []byte {
	for r.err == nil {
		from := r.pos
		switch op := r.byte(); op {
		case opEnd:
			return append(out, opEnd)
		case 0x41:
			r.sleb(32)
		case 0x42:
			r.sleb(64)
		case 0x43:
			r.bytes(4)
		case 0x44:
			r.bytes(8)
		case 0x23:
			if i := r.u32(); i >= uint32(globals) && r.err == nil {
				r.fail(malformed("global %d does not exist", i))
			}
		case 0xd0:
			r.byte()
		case 0xd2:
			out = append(out, op)
			out = appendU32(out, m.funcIndex(r))
			continue
		case 0xfd:
			if r.u32() != 12 {
				r.fail(malformed("not a constant expression"))
			}
			r.bytes(16)
		default:
			r.fail(malformed("opcode %#x in a constant expression", op))
		}
		if r.err == nil {
			out = append(out, r.b[from:r.pos]...)
		}
	}
	return nil
}

// funcIndex reads a function index and moves it past the added import.
func (m *module) funcIndex(r *reader) uint32 {
	i := r.u32()
	if i >= uint32(len(m.imported)+len(m.defined)) && r.err == nil {
		r.fail(malformed("function %d does not exist", i))
	}
	return m.moved(i)
}

// moved is a function's index past the added import.
func (m *module) moved(i uint32) uint32 {
	if i >= m.refill {
		i++
	}
	return i
}

// typeOfFunc is the type of a function by its original index.
func (m *module) typeOfFunc(i uint32) uint32 {
	if i < uint32(len(m.imported)) {
		return m.imported[i]
	}
	return m.defined[i-uint32(len(m.imported))]
}
