// Package wasmtest assembles small wasm modules for tests.
package wasmtest

// Value types in type strings of a [Builder].
const (
	I32 = "\x7f"
	I64 = "\x7e"
)

// Builder assembles a core wasm module. Imports have to be added before
// functions. It does not check what it is given, so that broken modules can
// be built.
type Builder struct {
	types, imports, functions, tables, memories, globals, exports, elements, bodies, data section
	start                                                                                 []byte
	names                                                                                 []string // of functions
	custom                                                                                []byte
	passive                                                                               bool // segments of data
}

type section struct {
	n    uint32
	body []byte
}

func (s *section) add(body ...[]byte) uint32 {
	for _, b := range body {
		s.body = append(s.body, b...)
	}
	s.n++
	return s.n - 1
}

func (s *section) append(out []byte, id byte) []byte {
	if s.n == 0 {
		return out
	}
	body := append(uleb(s.n), s.body...)
	return append(append(append(out, id), uleb(uint32(len(body)))...), body...)
}

func uleb(v uint32) []byte {
	var b []byte
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func sleb(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func vec(s string) []byte { return append(uleb(uint32(len(s))), s...) }

// Type adds a function type and returns its index.
func (b *Builder) Type(params, results string) uint32 {
	return b.types.add([]byte{0x60}, vec(params), vec(results))
}

// Import adds an imported function and returns its index.
func (b *Builder) Import(module, name string, typ uint32) uint32 {
	b.names = append(b.names, name)
	return b.imports.add(vec(module), vec(name), []byte{0}, uleb(typ))
}

// Func adds a function, with locals of the given types, exported unless its
// name is empty, and returns its index. The final end is added.
func (b *Builder) Func(export string, typ uint32, locals string, code Code) uint32 {
	index := b.imports.n + b.functions.add(uleb(typ))
	var groups []byte
	for i := range len(locals) {
		groups = append(groups, 1, locals[i])
	}
	body := append(uleb(uint32(len(locals))), groups...)
	body = append(append(body, code...), 0x0b)
	b.bodies.add(uleb(uint32(len(body))), body)
	if export != "" {
		b.Export(export, 0, index)
	}
	b.names = append(b.names, export)
	return index
}

// Body adds a function with a body as it is given, local groups included.
func (b *Builder) Body(typ uint32, body []byte) uint32 {
	index := b.imports.n + b.functions.add(uleb(typ))
	b.bodies.add(uleb(uint32(len(body))), body)
	return index
}

// Table adds a table of functions.
func (b *Builder) Table(least, most uint32) {
	b.tables.add([]byte{0x70, 1}, uleb(least), uleb(most))
}

// Elements fills table 0 from an offset.
func (b *Builder) Elements(offset int32, funcs ...uint32) {
	b.elements.add([]byte{0}, Code(nil).I32Const(offset), []byte{0x0b}, uleb(uint32(len(funcs))))
	for _, f := range funcs {
		b.elements.body = append(b.elements.body, uleb(f)...)
	}
}

// Memory adds a memory of some pages, exported as "memory".
func (b *Builder) Memory(least uint32) {
	b.Export("memory", 2, b.memories.add([]byte{0}, uleb(least)))
}

// BoundedMemory is Memory with a maximum.
func (b *Builder) BoundedMemory(least, most uint32) {
	b.Export("memory", 2, b.memories.add([]byte{1}, uleb(least), uleb(most)))
}

// Next is the index of the next function.
func (b *Builder) Next() uint32 { return b.imports.n + b.functions.n }

// Global adds a mutable global of type i32 and returns its index.
func (b *Builder) Global(value int32) uint32 {
	return b.globals.add([]byte{0x7f, 1}, Code(nil).I32Const(value), []byte{0x0b})
}

// Data puts text into the memory.
func (b *Builder) Data(offset int32, text string) {
	b.data.add([]byte{0}, Code(nil).I32Const(offset), []byte{0x0b}, vec(text))
}

// PassiveData adds data that memory.init copies, and returns its index.
func (b *Builder) PassiveData(text string) uint32 {
	b.passive = true
	return b.data.add([]byte{1}, vec(text))
}

// PassiveElements adds functions that table.init copies, and returns their index.
func (b *Builder) PassiveElements(funcs ...uint32) uint32 {
	i := b.elements.add([]byte{1, 0}, uleb(uint32(len(funcs))))
	for _, f := range funcs {
		b.elements.body = append(b.elements.body, uleb(f)...)
	}
	return i
}

// ImportMemory adds an imported memory of some pages, after all other imports.
func (b *Builder) ImportMemory(module, name string, least uint32) {
	b.imports.add(vec(module), vec(name), []byte{2, 0}, uleb(least))
}

// Export adds an export of a kind: 0 function, 1 table, 2 memory, 3 global.
func (b *Builder) Export(name string, kind byte, index uint32) {
	b.exports.add(vec(name), []byte{kind}, uleb(index))
}

// Start sets the start function.
func (b *Builder) Start(index uint32) { b.start = uleb(index) }

// Custom adds a custom section after all others.
func (b *Builder) Custom(name string, body []byte) {
	all := append(vec(name), body...)
	b.custom = append(append(append(b.custom, 0), uleb(uint32(len(all)))...), all...)
}

// Names adds a name section with the names of all functions.
func (b *Builder) Names() {
	sub := uleb(uint32(len(b.names)))
	for i, name := range b.names {
		sub = append(append(sub, uleb(uint32(i))...), vec(name)...)
	}
	b.Custom("name", append(append([]byte{1}, uleb(uint32(len(sub)))...), sub...))
}

// Bytes is the module.
func (b *Builder) Bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	out = b.types.append(out, 1)
	out = b.imports.append(out, 2)
	out = b.functions.append(out, 3)
	out = b.tables.append(out, 4)
	out = b.memories.append(out, 5)
	out = b.globals.append(out, 6)
	out = b.exports.append(out, 7)
	if b.start != nil {
		out = append(append(out, 8, byte(len(b.start))), b.start...)
	}
	out = b.elements.append(out, 9)
	if b.passive { // is how many there are written before the code that uses them
		count := uleb(b.data.n)
		out = append(append(out, 12, byte(len(count))), count...)
	}
	out = b.bodies.append(out, 10)
	out = b.data.append(out, 11)
	return append(out, b.custom...)
}

// Code is a sequence of instructions. Its methods append one each.
type Code []byte

// Op appends opcodes without immediates, or anything else.
func (c Code) Op(bytes ...byte) Code { return append(c, bytes...) }

// I32Const appends i32.const.
func (c Code) I32Const(v int32) Code { return append(append(c, 0x41), sleb(int64(v))...) }

// I64Const appends i64.const.
func (c Code) I64Const(v int64) Code { return append(append(c, 0x42), sleb(v)...) }

// Call appends call.
func (c Code) Call(f uint32) Code { return append(append(c, 0x10), uleb(f)...) }

// LocalGet appends local.get.
func (c Code) LocalGet(i uint32) Code { return append(append(c, 0x20), uleb(i)...) }

// LocalSet appends local.set.
func (c Code) LocalSet(i uint32) Code { return append(append(c, 0x21), uleb(i)...) }

// LocalTee appends local.tee.
func (c Code) LocalTee(i uint32) Code { return append(append(c, 0x22), uleb(i)...) }

// GlobalGet appends global.get.
func (c Code) GlobalGet(i uint32) Code { return append(append(c, 0x23), uleb(i)...) }

// GlobalSet appends global.set.
func (c Code) GlobalSet(i uint32) Code { return append(append(c, 0x24), uleb(i)...) }

// Load appends i32.load from a constant offset; the address is on the stack.
func (c Code) Load(offset uint32) Code { return append(append(c, 0x28, 2), uleb(offset)...) }

// Store appends i32.store.
func (c Code) Store(offset uint32) Code { return append(append(c, 0x36, 2), uleb(offset)...) }

// Store8 appends i32.store8.
func (c Code) Store8(offset uint32) Code { return append(append(c, 0x3a, 0), uleb(offset)...) }

// Loop appends a loop without result around body.
func (c Code) Loop(body Code) Code { return append(append(append(c, 0x03, 0x40), body...), 0x0b) }

// Block appends a block without result around body.
func (c Code) Block(body Code) Code { return append(append(append(c, 0x02, 0x40), body...), 0x0b) }

// If appends an if without result; the condition is on the stack.
func (c Code) If(then Code) Code { return append(append(append(c, 0x04, 0x40), then...), 0x0b) }

// Br appends br.
func (c Code) Br(label uint32) Code { return append(append(c, 0x0c), uleb(label)...) }

// BrIf appends br_if.
func (c Code) BrIf(label uint32) Code { return append(append(c, 0x0d), uleb(label)...) }

// Drop appends drop.
func (c Code) Drop() Code { return append(c, 0x1a) }

// Return appends return.
func (c Code) Return() Code { return append(c, 0x0f) }

// Unreachable appends unreachable.
func (c Code) Unreachable() Code { return append(c, 0x00) }

// MemoryGrow appends memory.grow.
func (c Code) MemoryGrow() Code { return append(c, 0x40, 0) }
