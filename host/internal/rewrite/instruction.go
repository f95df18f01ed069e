package rewrite

// instruction reads one instruction and makes pieces of it.
//
// Indexes are checked here, since an index that is invalid in the original
// could be valid in what is written: it would reach the fuel, the refill
// import or a temporary. All else the engine validates.
func (f *function) instruction() {
	r := f.r
	at := r.pos
	if next := r.peek(); next == opCall || next == opCallIndirect {
		f.straight(f.callSpan(next))
	} else {
		f.straight(0)
	}
	op := r.byte()
	switch op {
	case opBlock, opLoop, opIf:
		f.open(at, op, f.blockType())
	case opElse:
		if len(f.frames) < 2 || f.top().op != opIf {
			r.fail(malformed("else without if"))
			return
		}
		top := f.top()
		top.op = opElse
		f.height = top.base + top.params
		f.newBlock()
	case opEnd:
		f.close()
	case opNop:
	case opUnreachable:
		f.count()
		f.dead = true
	case opBr:
		f.count()
		f.branch(at, op, 1)
		f.dead = true
	case opBrIf:
		f.count()
		f.push(-1)
		f.branch(at, op, 1)
		if !f.dead {
			f.newBlock()
		}
	case opBrTable:
		f.count()
		f.push(-1)
		f.branch(at, op, r.count("labels", 1<<20)+1)
		f.dead = true
	case opReturn:
		f.count()
		f.replace(at, piece{kind: pieceReturn, n: int64(len(f.frames)-1) + int64(f.top().wraps)})
		f.dead = true
	case opCall:
		f.count()
		f.calls = true
		i := f.index("function", len(f.m.imported)+len(f.m.defined))
		if r.err != nil {
			return
		}
		f.called(f.m.types[f.m.typeOfFunc(i)])
		if n := int(i) - len(f.m.imported); n >= 0 && !f.dead {
			f.callees = append(f.callees, uint32(n))
		}
		f.replace(at, piece{kind: pieceCall, n: int64(f.m.moved(i))})
	case opRefFunc:
		f.count()
		f.push(1)
		f.replace(at, piece{kind: pieceRef, n: int64(f.m.funcIndex(r))})
	case opCallIndirect:
		f.count()
		f.calls = true
		t := f.index("type", len(f.m.types))
		f.index("table", f.m.tables)
		if r.err == nil {
			f.push(-1)
			f.called(f.m.types[t])
			f.indirect = f.indirect || !f.dead
		}
	case opMemoryGrow:
		f.count()
		if r.byte() != 0 {
			r.fail(malformed("memory.grow of another memory"))
		}
		if !f.dead {
			f.temps = true
			f.replace(at, piece{kind: pieceGrow})
		}
	case 0xfc:
		f.count()
		f.bulk(at)
	case 0xfd:
		f.count()
		f.vector()
	default:
		f.count()
		f.plain(op)
	}
}

func (f *function) top() *frame { return &f.frames[len(f.frames)-1] }

func (f *function) open(at int, op byte, t funcType) {
	fr := frame{op: op, params: len(t.params), results: len(t.results), loops: f.top().loops, wraps: f.top().wraps}
	switch op {
	case opIf:
		f.count()
		f.push(-1)
		f.newBlock()
	case opLoop:
		fr.loops++
		f.meet()
		if len(t.params) > 0 { // no compiler that we know of makes these
			f.newBlock()
			f.pieces = append(f.pieces, piece{kind: pieceCheck})
			break
		}
		f.meet()
		f.meet()
		fr.wrapped = true
		fr.wraps += loopLabels
		f.replace(at, piece{kind: pieceLoop, from: at, to: f.r.pos})
		f.newBlock()
	}
	if len(f.frames) >= maxNesting || fr.loops > maxLoops {
		f.r.fail(&Error{Kind: Limit, Msg: "blocks nested too deep"})
		return
	}
	fr.base = max(0, f.height-fr.params)
	f.frames = append(f.frames, fr)
}

// close handles an end. What follows is the same basic block unless a branch
// can arrive here too, or nothing can come from above.
func (f *function) close() {
	top := *f.top()
	f.frames = f.frames[:len(f.frames)-1]
	if len(f.frames) == 0 {
		f.flush(f.r.pos)
		return
	}
	f.height = top.base
	f.push(top.results)
	if top.targeted || top.op == opIf || top.op == opElse {
		f.meet()
	}
	if top.wrapped {
		f.flush(f.r.pos)
		f.pieces = append(f.pieces, piece{kind: pieceEnd})
	}
	if top.op == opIf || top.op == opElse || top.op == opBlock && top.targeted || f.dead {
		f.newBlock()
	}
}

// branch reads the labels of a branch that begins at a position.
func (f *function) branch(at int, op byte, n int) {
	from := len(f.labels)
	for range n {
		f.labels = append(f.labels, f.label())
		if f.r.err != nil {
			return
		}
	}
	if f.top().wraps == 0 { // it stays as it is
		f.labels = f.labels[:from]
		return
	}
	f.replace(at, piece{kind: pieceBranch, from: from, to: len(f.labels), n: int64(op)})
}

// label reads a branch target and returns what it is in what is written.
func (f *function) label() uint32 {
	i := f.r.u32()
	if f.r.err != nil {
		return 0
	}
	if uint64(i) >= uint64(len(f.frames)) {
		f.r.fail(malformed("label %d does not exist", i))
		return 0
	}
	target := &f.frames[len(f.frames)-1-int(i)]
	target.targeted = true
	if target.op == opLoop {
		f.values += int64(target.params)
	} else {
		f.values += int64(target.results)
	}
	return i + f.top().wraps - target.wraps
}

func (f *function) blockType() (t funcType) {
	r := f.r
	if c := r.b[min(r.pos, len(r.b)-1)]; c == blockEmpty || validValueType(c) {
		if r.byte() != blockEmpty {
			t.results = oneResult
		}
		return t
	}
	i := r.sleb(33)
	if (i < 0 || i >= int64(len(f.m.types))) && r.err == nil {
		r.fail(malformed("block type %d does not exist", i))
	}
	if r.err != nil {
		return t
	}
	return f.m.types[i]
}

// oneResult stands for any one; it is never written to.
var oneResult = []byte{I32}

// index reads an index and checks it.
func (f *function) index(what string, n int) uint32 {
	i := f.r.u32()
	if uint64(i) >= uint64(n) && f.r.err == nil {
		f.r.fail(malformed("%s %d does not exist", what, i))
	}
	return i
}

func (f *function) plain(op byte) {
	r := f.r
	f.push(stackEffect(op))
	switch {
	case op >= 0x45 && op <= 0xc4, op == 0x1a, op == 0x1b, op == 0xd1:
	case op == 0x1c: // select with types
		r.bytes(uint32(r.count("types", 16)))
	case op >= 0x20 && op <= 0x22:
		f.index("local", int(f.locals))
	case op == opGlobalGet, op == opGlobalSet:
		i := f.index("global", len(f.m.globals))
		if op == opGlobalSet && r.err == nil && !f.m.globals[i].mutable {
			r.fail(malformed("global %d is not mutable", i))
		}
	case op == 0x25, op == 0x26: // table.get, table.set
		if op == 0x26 {
			f.m.resettable = false
		}
		f.index("table", f.m.tables)
	case op >= 0x28 && op <= 0x3e: // loads and stores
		r.u32()
		r.u32()
	case op == 0x3f:
		r.byte()
	case op == opI32Const:
		r.sleb(32)
	case op == opI64Const:
		r.sleb(64)
	case op == 0x43:
		r.bytes(4)
	case op == 0x44:
		r.bytes(8)
	case op == 0xd0: // ref.null
		r.byte()
	case op == 0x12, op == 0x13:
		r.fail(malformed("tail calls are not supported"))
	case op == 0xfe:
		r.fail(malformed("threads are not supported"))
	case op == 0xfb, op == 0x14, op == 0x15, op >= 0xd3 && op <= 0xd6:
		r.fail(malformed("garbage collection and typed references are not supported"))
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		r.fail(malformed("exceptions are not supported"))
	default:
		r.fail(malformed("opcode %#x is not supported", op))
	}
}

// bulk reads what follows 0xfc: saturating conversions, bulk memory, tables.
func (f *function) bulk(at int) {
	r := f.r
	op := r.u32()
	f.push(bulkEffect(op))
	charge := int64(-1)
	switch {
	case op <= 7:
	case op == 8: // memory.init
		r.u32()
		r.byte()
		charge = bulkShift
	case op == 9: // data.drop
		r.u32()
		f.m.resettable = false
	case op == 10: // memory.copy
		r.byte()
		r.byte()
		charge = bulkShift
	case op == 11: // memory.fill
		r.byte()
		charge = bulkShift
	case op == 12: // table.init
		r.u32()
		f.index("table", f.m.tables)
		f.m.resettable = false
		charge = 0
	case op == 13: // elem.drop
		r.u32()
		f.m.resettable = false
	case op == 14: // table.copy
		f.index("table", f.m.tables)
		f.index("table", f.m.tables)
		f.m.resettable = false
		charge = 0
	case op == 15: // table.grow
		i := f.index("table", f.m.tables)
		f.m.resettable = false
		if !f.dead {
			f.temps = true
			f.replace(at, piece{kind: pieceTGrow, n: int64(i)})
		}
	case op == 16: // table.size
		f.index("table", f.m.tables)
	case op == 17: // table.fill
		f.index("table", f.m.tables)
		f.m.resettable = false
		charge = 0
	default:
		r.fail(malformed("opcode 0xfc %d is not supported", op))
	}
	if charge >= 0 && !f.dead && r.err == nil {
		f.temps = true
		end := r.pos
		r.pos = at // the charge comes before the instruction
		f.flush(at)
		f.pieces = append(f.pieces, piece{kind: pieceBulk, n: charge})
		f.from = at
		r.pos = end
	}
}

// vector reads what follows 0xfd.
func (f *function) vector() {
	r := f.r
	op := r.u32()
	f.push(vectorEffect(op))
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		r.u32()
		r.u32()
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		r.bytes(16)
	case op >= 21 && op <= 34: // lanes
		r.byte()
	case op >= 84 && op <= 91: // loads and stores of lanes
		r.u32()
		r.u32()
		r.byte()
	case op <= 255:
	default:
		r.fail(malformed("relaxed SIMD is not supported"))
	}
}
