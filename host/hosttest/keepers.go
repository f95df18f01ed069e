package hosttest

import "weir.dev/weir/abi"

// Keeper is a guest that counts its calls in its memory and in a global, and
// says in a warning, as "n:m", how many there were before: always 0:0 on a
// host that forgets. It leaves traces all over its memory, and if the object
// has a member "trap" it traps when all this is done.
func Keeper() []byte {
	g := NewGuest("keeper", abi.OpValidateCreate, abi.OpValidateUpdate)
	return g.Finish(g.keeper())
}

// TableKeeper is a Keeper whose second counter is the size of a table.
func TableKeeper() []byte {
	g := NewGuest("tablekeeper", abi.OpValidateCreate, abi.OpValidateUpdate)
	g.Table(0, 100)
	code := g.keeper()
	grow := Code(nil).Op(0xd0, 0x70).I32Const(1).Op(0xfc, 15, 0).Drop() // table.grow
	return g.Finish(append(code, grow...))
}

// SegmentKeeper is a Keeper that drops a segment of data and one of functions,
// and traps if they were dropped before.
func SegmentKeeper() []byte {
	g := NewGuest("segmentkeeper", abi.OpValidateCreate, abi.OpValidateUpdate)
	g.Table(1, 1)
	f := g.Func("", g.Void, "", nil)
	functions, data := byte(g.PassiveElements(f)), byte(g.PassiveData("once"))
	code := Code(nil).
		I32Const(bufferAt).I32Const(0).I32Const(4).Op(0xfc, 8, data, 0). // memory.init
		Op(0xfc, 9, data).                                               // data.drop
		I32Const(0).I32Const(0).I32Const(1).Op(0xfc, 12, functions, 0).  // table.init
		Op(0xfc, 13, functions)                                          // elem.drop
	return g.Finish(append(code, g.keeper()...))
}

const (
	counterAt = 64
	farAt     = 63 << 10
)

func (g *Guest) keeper() Code {
	global := g.Global(0)
	at, n := g.Text(`{"warnings":["0:0"]}`)
	path, pathLen := g.Text("trap")
	digit := func(c Code, pos int32, value Code) Code {
		// text[pos] = '0' + value
		c = append(c.I32Const(at+pos), value...)
		return c.I32Const('0').Op(opI32Add).Store8(0)
	}
	var c Code
	c = digit(c, 14, Code(nil).I32Const(counterAt).Load(0))
	c = digit(c, 16, Code(nil).GlobalGet(global))
	c = c.I32Const(counterAt).I32Const(counterAt).Load(0).I32Const(1).Op(opI32Add).Store(0)
	c = c.GlobalGet(global).I32Const(1).Op(opI32Add).GlobalSet(global)
	c = c.I32Const(farAt).I32Const(-1).Store(0)
	// Memory that was grown must be gone, and zero when it comes back.
	c = c.I32Const(3).MemoryGrow().I32Const(1).Op(opI32Ne).If(Code(nil).Unreachable())
	c = c.I32Const(2 << 16).Load(16).If(Code(nil).Unreachable())
	c = c.I32Const(2 << 16).I32Const(7).Store(16)
	c = c.I32Const(int32(abi.SlotResult)).I32Const(at).I32Const(n).Call(g.Write).Drop()
	return c.I32Const(int32(abi.SlotObject)).I32Const(path).I32Const(pathLen).I32Const(bufferAt).I32Const(100).Call(g.Query).
		I32Const(0).Op(0x4e).If(Code(nil).Unreachable()) // i32.ge_s
}

// Flooder is a guest that logs without end, then answers.
func Flooder() []byte {
	g := NewGuest("flooder", abi.OpValidateCreate)
	at, n := g.Text("the water rises")
	return g.Finish(Code(nil).Loop(Code(nil).
		I32Const(int32(abi.LogWarn)).I32Const(at).I32Const(n).Call(g.Log).Drop().
		LocalGet(1).I32Const(1).Op(opI32Add).LocalTee(1).I32Const(5000).Op(opI32LtU).BrIf(0)))
}

// Asker is a guest that denies with what the host answers to a query of the
// object.
func Asker(path string) []byte {
	g := NewGuest("asker", abi.OpValidateCreate)
	prefix := `{"audit":{"code":"      "},"warnings":[`
	at, n := g.Text(path)
	head, headLen := g.Text(prefix)
	// Copy the prefix, the answer behind it, and close.
	code := Code(nil).
		I32Const(bufferAt).I32Const(head).I32Const(headLen).Op(0xfc, 10, 0, 0).
		I32Const(int32(abi.SlotObject)).I32Const(at).I32Const(n).I32Const(bufferAt+headLen).I32Const(30_000).Call(g.Query).LocalTee(1).
		I32Const(0).Op(0x48).If(Code(nil). // i32.lt_s: fail with the errno as status
		I32Const(100).LocalGet(1).Op(opI32Sub).Return()).
		I32Const(bufferAt+headLen).LocalGet(1).Op(opI32Add).I32Const(0x7d5d).Op(0x3b, 0, 0). // "]}"
		I32Const(int32(abi.SlotResult)).I32Const(bufferAt).LocalGet(1).I32Const(headLen + 2).Op(opI32Add).Call(g.Write).Drop()
	return g.Finish(code)
}

// Patcher is a guest that answers prepareForCreate with a JSON patch.
func Patcher(patch string) []byte {
	g := NewGuest("patcher", abi.OpPrepareForCreate)
	return g.Finish(g.WriteText(nil, abi.SlotPatch, patch))
}
