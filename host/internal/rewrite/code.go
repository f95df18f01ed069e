package rewrite

import "fmt"

// Opcodes that the rewriter knows by name.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32Eq        = 0x46
	opI32GtU       = 0x4b
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefFunc      = 0xd2
	blockEmpty     = 0x40
)

// Prices of what takes longer than an instruction, as shifts.
const (
	bulkShift = 4  // a unit for 16 bytes that are copied or filled
	growShift = 10 // 1,024 units for a page
)

// loopLabels is how many labels there are around a loop that is wrapped.
const loopLabels = 3

// A piece of a rewritten body.
type piece struct {
	kind     pieceKind
	from, to int   // pieceCopy: a range of the original body
	n        int64 // the charge, or the operand
}

type pieceKind uint8

const (
	pieceCopy   pieceKind = iota // original bytes
	pieceCharge                  // subtract n
	pieceCheck                   // test the fuel
	pieceCall                    // call n
	pieceRef                     // ref.func n
	pieceReturn                  // return, from n blocks deep
	pieceBulk                    // charge the length on top of the stack >> n
	pieceGrow                    // memory.grow
	pieceTGrow                   // table.grow n
	pieceLoop                    // a loop, whose beginning is a range of the original body
	pieceEnd                     // end
	pieceBranch                  // br, br_if or br_table, as the range of labels has it
)

type frame struct {
	op       byte
	targeted bool
	// base is the height of the operand stack below the block's parameters.
	base, params, results int
	loops                 int // around what is in the block
	// wrapped: the loop is in another one; wraps is how many are, of the
	// blocks up to this one.
	wrapped bool
	wraps   uint32
}

// function rewrites one body. Its slices are used again for the next.
type function struct {
	m      *module
	r      *reader
	pieces []piece
	frames []frame
	from   int // of the copy that is not yet a piece
	charge int // index of the charge that instructions are counted to
	dead   bool
	locals uint32 // parameters and locals
	calls  bool
	total  int64
	temps  bool
	labels []uint32 // of branches that are written anew

	tested   bool     // on entry
	indirect bool     // there is an indirect call
	callees  []uint32 // of calls, of defined functions
	testedAt int64    // the total when the fuel was tested last
	run      int64    // what was called for since, as spans

	height, highest int   // of the operand stack
	values          int64 // see maxFunctionValues
}

func (m *module) codeSection(r *reader) []byte {
	n := 0
	if len(r.b) > 0 {
		n = r.count("function bodies", maxFunctions)
	}
	if n != len(m.defined) {
		r.fail(malformed("%d function bodies for %d functions", n, len(m.defined)))
		return nil
	}
	if n == 0 {
		return nil
	}
	f := &function{m: m}
	spans := newSpans(n)
	bodies := make([][]byte, n)
	for i := range n {
		bodies[i] = r.bytes(r.u32())
		if r.err != nil {
			return nil
		}
		if _, err := f.read(bodies[i], m.types[m.defined[i]]); err != nil {
			r.fail(fmt.Errorf("function %d: %w", i+len(m.imported), err))
			return nil
		}
		spans.add(i, f)
	}
	m.spans = spans.solve()
	m.values = 0 // they are counted once more
	out := appendU32(make([]byte, 0, len(r.b)*3/2), uint32(n))
	var buf []byte
	for i, body := range bodies {
		t := m.types[m.defined[i]]
		groups, err := f.read(body, t)
		if err != nil {
			r.fail(fmt.Errorf("function %d: %w", i+len(m.imported), err))
			return nil
		}
		f.tested = m.spans[i] == 0
		buf = f.emit(buf[:0], t, groups.n, body[groups.from:groups.to])
		out = appendU32(out, uint32(len(buf)))
		out = append(out, buf...)
	}
	return out
}

// read makes pieces of a body.
func (f *function) read(body []byte, t funcType) (localGroups, error) {
	*f = function{m: f.m, pieces: f.pieces[:0], frames: f.frames[:0], labels: f.labels[:0], callees: f.callees[:0], r: &reader{b: body}, locals: uint32(len(t.params))}
	groups := f.localGroups()
	if f.r.err != nil {
		return groups, f.r.err
	}
	f.from = f.r.pos
	f.frames = append(f.frames, frame{op: opBlock, results: len(t.results)})
	f.newBlock()
	for len(f.frames) > 0 && f.r.err == nil {
		f.instruction()
	}
	if f.r.err == nil && f.r.left() > 0 {
		f.r.fail(malformed("%d bytes after the end", f.r.left()))
	}
	if f.r.err != nil {
		return groups, fmt.Errorf("at byte %d: %w", f.r.pos, f.r.err)
	}
	return groups, f.weigh()
}

type localGroups struct {
	n        uint32
	from, to int
}

func (f *function) localGroups() localGroups {
	r := f.r
	g := localGroups{n: uint32(r.count("groups of locals", maxLocals)), from: r.pos}
	for range g.n {
		n, t := r.u32(), r.byte()
		if r.err != nil {
			return g
		}
		if n > maxLocals || f.locals+n > maxLocals {
			r.fail(&Error{Kind: Limit, Msg: fmt.Sprintf("more than %d locals", maxLocals)})
			return g
		}
		if !validValueType(t) {
			r.fail(malformed("value type %#x is not supported", t))
			return g
		}
		f.locals += n
	}
	g.to = r.pos
	return g
}

// flush makes a piece of what was passed over until to.
func (f *function) flush(to int) {
	if to > f.from {
		f.pieces = append(f.pieces, piece{kind: pieceCopy, from: f.from, to: to})
	}
	f.from = f.r.pos
}

// newBlock begins a basic block at the reader's position.
func (f *function) newBlock() {
	f.flush(f.r.pos)
	f.charge = len(f.pieces)
	f.pieces = append(f.pieces, piece{kind: pieceCharge})
	f.dead = false
}

func (f *function) count() {
	if !f.dead {
		f.pieces[f.charge].n++
		f.total++
	}
}

// replace puts p in place of the instruction that begins at and ends here.
func (f *function) replace(at int, p piece) {
	f.flush(at)
	f.pieces = append(f.pieces, p)
}

// emit appends the rewritten body to out.
func (f *function) emit(out []byte, t funcType, groups uint32, declared []byte) []byte {
	m := f.m
	if f.temps {
		out = appendU32(out, groups+1)
		out = append(out, declared...)
		out = append(out, 2, I32)
	} else {
		out = appendU32(out, groups)
		out = append(out, declared...)
	}
	tmp := f.locals
	for i, p := range f.pieces {
		switch p.kind {
		case pieceCopy:
			out = append(out, f.r.b[p.from:p.to]...)
		case pieceCharge:
			if p.n > 0 {
				out = m.appendCharge(out, p.n)
			}
			if i == 0 {
				out = f.appendEntry(out, t)
			}
		case pieceCheck:
			out = m.appendCheck(out)
		case pieceCall:
			out = appendU32(append(out, opCall), uint32(p.n))
		case pieceRef:
			out = appendU32(append(out, opRefFunc), uint32(p.n))
		case pieceReturn:
			if f.calls {
				out = appendU32(append(out, opBr), uint32(p.n))
			} else {
				out = append(out, opReturn)
			}
		case pieceLoop:
			begin := f.r.b[p.from:p.to]
			out = append(append(out, opBlock), begin[1:]...)
			out = append(append(out, begin...), opBlock, blockEmpty)
			out = appendU32(append(append(out, begin...), opGlobalGet), m.fuel)
			out = append(out, opI64Const, 0, opI64LtS, opBrIf, 1)
		case pieceEnd:
			out = append(out, opBr, 2, opEnd)
			out = appendU32(append(out, opGlobalGet), m.fuel)
			out = appendU32(append(out, opCall), m.refill)
			out = appendU32(append(out, opGlobalSet), m.fuel)
			out = append(out, opBr, 0, opEnd, opEnd)
		case pieceBranch:
			out = append(out, byte(p.n))
			if p.n == opBrTable {
				out = appendU32(out, uint32(p.to-p.from-1))
			}
			for _, label := range f.labels[p.from:p.to] {
				out = appendU32(out, label)
			}
		case pieceBulk:
			out = appendU32(append(out, opLocalTee), tmp)
			out = m.appendChargeLocal(out, tmp, opI64ShrU, p.n)
			out = m.appendCheck(out)
		case pieceGrow, pieceTGrow:
			out = appendU32(append(out, opLocalTee), tmp)
			if p.kind == pieceGrow {
				out = append(out, opMemoryGrow, 0)
			} else {
				out = appendU32(append(out, 0xfc, 15), uint32(p.n))
			}
			out = appendU32(append(out, opLocalTee), tmp+1)
			out = append(out, opI32Const, 0x7f, opI32Eq, opIf, blockEmpty)
			if p.kind == pieceGrow {
				out = m.appendFlag(out, FlagMemory)
			}
			out = append(out, opElse)
			if p.kind == pieceGrow {
				out = m.appendChargeLocal(out, tmp, opI64Shl, growShift)
			} else {
				out = m.appendChargeLocal(out, tmp, opI64Shl, 0)
			}
			out = append(out, opEnd)
			out = m.appendCheck(out)
			out = appendU32(append(out, opLocalGet), tmp+1)
		}
	}
	if f.calls { // the last end closed the wrapper
		out = m.appendDepth(out, opI32Sub, f.frameCalls())
		out = append(out, opEnd)
	}
	return out
}

// appendEntry appends what follows the first charge of a function.
func (f *function) appendEntry(out []byte, t funcType) []byte {
	m := f.m
	if f.tested {
		out = m.appendCheck(out)
	}
	if !f.calls {
		return out
	}
	out = m.appendDepth(out, opI32Add, f.frameCalls())
	out = appendU32(append(out, opGlobalGet), m.depth)
	out = appendSleb(append(out, opI32Const), int64(int32(m.opts.Depth)))
	out = append(out, opI32GtU, opIf, blockEmpty)
	out = m.appendFlag(out, FlagDepth)
	out = append(out, opUnreachable, opEnd)
	// The body becomes a block, at the end of which every way out but a
	// trap arrives.
	out = append(out, opBlock)
	switch len(t.results) {
	case 0:
		return append(out, blockEmpty)
	case 1:
		return append(out, t.results[0])
	}
	return appendSleb(out, int64(m.wrapperType(t.results)))
}

func (m *module) appendCharge(out []byte, n int64) []byte {
	out = appendU32(append(out, opGlobalGet), m.fuel)
	out = appendSleb(append(out, opI64Const), n)
	return appendU32(append(out, opI64Sub, opGlobalSet), m.fuel)
}

// appendChargeLocal charges an i32 local, shifted.
func (m *module) appendChargeLocal(out []byte, local uint32, shift byte, by int64) []byte {
	out = appendU32(append(out, opGlobalGet), m.fuel)
	out = appendU32(append(out, opLocalGet), local)
	out = appendSleb(append(out, opI64ExtendU, opI64Const), by)
	out = append(out, shift, opI64Sub)
	return appendU32(append(out, opGlobalSet), m.fuel)
}

func (m *module) appendCheck(out []byte) []byte {
	out = appendU32(append(out, opGlobalGet), m.fuel)
	out = append(out, opI64Const, 0, opI64LtS, opIf, blockEmpty)
	out = appendU32(append(out, opGlobalGet), m.fuel)
	out = appendU32(append(out, opCall), m.refill)
	out = appendU32(append(out, opGlobalSet), m.fuel)
	return append(out, opEnd)
}

func (m *module) appendDepth(out []byte, op byte, calls int64) []byte {
	out = appendU32(append(out, opGlobalGet), m.depth)
	out = append(appendSleb(append(out, opI32Const), calls), op)
	return appendU32(append(out, opGlobalSet), m.depth)
}

func (m *module) appendFlag(out []byte, flag byte) []byte {
	return appendU32(append(out, opI32Const, flag, opGlobalSet), m.flag)
}
