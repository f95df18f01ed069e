package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory",
	"global", "export", "start", "element", "code", "data", "data count"}

// sectionOrder is the position of each section id; custom sections may stand
// anywhere.
var sectionOrder = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5,
	secGlobal: 6, secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

type funcType struct{ params, results []byte }

type global struct {
	valType byte
	mutable bool
}

// module is what of the original the rewriter has to know.
type module struct {
	opts     Options
	sections [secDataCount + 1][]byte
	name     []byte // body of the name section

	types       []funcType
	importNames []ImportName
	imported    []uint32 // type indexes of imported functions
	defined     []uint32 // type indexes of defined functions
	tables      int
	globals     []global
	start       int64 // function index or -1
	exports     map[string]FuncType
	memory      uint32 // declared minimum, pages

	wrappers     map[string]uint32 // results to the index of type func() results
	extraTypes   [][]byte
	resettable   bool
	refill       uint32
	fuel, flag   uint32
	depth        uint32
	refillTypeID uint32
}

// Rewrite checks and rewrites a module. An error is an *Error.
func Rewrite(wasm []byte, opts Options) (*Module, error) {
	if opts.ModuleBytes > 0 && len(wasm) > opts.ModuleBytes {
		return nil, &Error{Kind: Limit, Msg: fmt.Sprintf("module of %d bytes, more than %d", len(wasm), opts.ModuleBytes)}
	}
	m := &module{opts: opts, start: -1, exports: map[string]FuncType{}, wrappers: map[string]uint32{}, resettable: true}
	out, err := m.rewrite(wasm)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return nil, malformed("%v", err)
		}
		return nil, &Error{Kind: e.Kind, Msg: err.Error()}
	}
	res := &Module{Bytes: out, Exports: m.exports, Start: m.start >= 0, Imports: m.importNames, Resettable: m.resettable, MemoryPages: m.memory}
	for i, g := range m.globals {
		if g.mutable {
			res.Globals = append(res.Globals, ExportGlobal+strconv.Itoa(i))
		}
	}
	return res, nil
}

func (m *module) rewrite(wasm []byte) ([]byte, error) {
	if err := m.split(wasm); err != nil {
		return nil, err
	}
	steps := []struct {
		id    byte
		parse func(*reader) []byte
	}{
		{secType, m.typeSection}, {secImport, m.importSection}, {secFunction, m.functionSection},
		{secTable, m.tableSection}, {secMemory, m.memorySection}, {secGlobal, m.globalSection},
		{secExport, m.exportSection}, {secStart, m.startSection}, {secElement, m.elementSection},
		{secDataCount, m.dataCountSection}, {secCode, m.codeSection}, {secData, m.dataSection},
	}
	out := append(make([]byte, 0, len(wasm)*3/2), "\x00asm\x01\x00\x00\x00"...)
	var bodies [secDataCount + 1][]byte
	for _, s := range steps {
		r := &reader{b: m.sections[s.id]}
		body := s.parse(r)
		if r.err == nil && r.left() > 0 {
			r.fail(fmt.Errorf("%d bytes too many", r.left()))
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s section: %w", sectionNames[s.id], r.err)
		}
		bodies[s.id] = body
	}
	bodies[secType] = m.finishTypes(bodies[secType])
	for _, s := range steps {
		if len(bodies[s.id]) > 0 {
			out = appendSection(out, s.id, bodies[s.id])
		}
	}
	if name := m.nameSection(); name != nil {
		out = appendSection(out, secCustom, name)
	}
	return out, nil
}

// split finds the sections.
func (m *module) split(wasm []byte) error {
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return malformed("not a wasm module")
	}
	if string(wasm[4:8]) != "\x01\x00\x00\x00" {
		return malformed("not a core wasm module of version 1 (a component?)")
	}
	r := &reader{b: wasm, pos: 8}
	last := 0
	for r.left() > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		if r.err != nil {
			return r.err
		}
		if id == secCustom {
			c := &reader{b: body}
			if name := c.name(); c.err != nil {
				return fmt.Errorf("custom section: %w", c.err)
			} else if name == "name" {
				m.name = body[c.pos:]
			}
			continue
		}
		if int(id) >= len(m.sections) {
			return malformed("section %d is not supported", id)
		}
		if sectionOrder[id] <= last {
			return malformed("%s section out of order", sectionNames[id])
		}
		last = sectionOrder[id]
		m.sections[id] = body
	}
	return nil
}

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
			r.fail(&Error{Kind: Import, Msg: err.Error()})
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
		return r.u32(), r.u32(), true
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
	if !ok || hi > m.opts.MemoryPages {
		hi = m.opts.MemoryPages
	}
	if hi < lo {
		r.fail(malformed("memory maximum is less than its minimum"))
		return nil
	}
	m.memory = lo
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
			if i >= uint32([]int{0, m.tables, 1, len(m.globals)}[kind]) && r.err == nil {
				r.fail(malformed("export %q of what does not exist", name))
				return nil
			}
			memory = memory || kind == 2 && name == "memory"
			out = appendU32(out, i)
		default:
			r.fail(malformed("export %q of unknown kind %d", name, kind))
		}
	}
	if r.err == nil && !memory {
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

// nameSection keeps the module's and the functions' names; those of locals,
// labels and the rest would have to be moved too and serve debuggers only.
// A section that does not parse is dropped, as engines ignore it.
func (m *module) nameSection() []byte {
	if m.name == nil {
		return nil
	}
	out := appendName(nil, "name")
	r := &reader{b: m.name}
	for r.left() > 0 {
		id := r.byte()
		body := r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		switch id {
		case 0:
			out = appendSection(out, id, body)
		case 1:
			s := &reader{b: body}
			n := s.count("names", maxFunctions+maxImports)
			names := appendU32(make([]byte, 0, len(body)+n/2), uint32(n))
			for range n {
				names = appendU32(names, m.funcIndex(s))
				names = appendName(names, s.name())
			}
			if s.err != nil {
				return nil
			}
			out = appendSection(out, id, names)
		}
	}
	return out
}
