package rewrite

import (
	"errors"
	"fmt"
	"strconv"
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
	memories    int

	wrappers     map[string]uint32 // results to the index of type func() results
	extraTypes   [][]byte
	resettable   bool
	refill       uint32
	fuel, flag   uint32
	depth        uint32
	refillTypeID uint32
	values       int64   // see maxModuleValues
	spans        []int64 // of defined functions, see spans
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
		return nil, &Error{Kind: e.Kind, Msg: err.Error(), Err: e.Err}
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
