package rewrite

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"weir.dev/weir/host/internal/wasmtest"
)

func options() Options {
	return Options{Import: func(string, string, FuncType) error { return nil }, MemoryPages: 10, Depth: 100}
}

func TestModule(t *testing.T) {
	var b wasmtest.Builder
	void := b.Type("", "")
	unary := b.Type(wasmtest.I32, wasmtest.I32)
	b.Import("env", "f", unary)
	b.Memory(2)
	b.Global(1)
	start := b.Func("", void, "", nil)
	b.Func("run", unary, "", wasmtest.Code(nil).LocalGet(0))
	b.Start(start)
	m, err := Rewrite(b.Bytes(), options())
	if err != nil {
		t.Fatal(err)
	}
	if !m.Start || !m.Resettable || m.MemoryPages != 2 {
		t.Errorf("%+v", m)
	}
	if len(m.Imports) != 1 || m.Imports[0] != (ImportName{"env", "f"}) {
		t.Errorf("imports %v", m.Imports)
	}
	if len(m.Globals) != 1 || m.Globals[0] != ExportGlobal+"0" {
		t.Errorf("globals %v", m.Globals)
	}
	if m.Exports["run"] != (FuncType{Params: "\x7f", Results: "\x7f"}) || len(m.Exports) != 1 {
		t.Errorf("exports %v", m.Exports)
	}
	again, err := Rewrite(b.Bytes(), options())
	if err != nil || !bytes.Equal(m.Bytes, again.Bytes) {
		t.Error("not the same twice")
	}
	if _, err := Rewrite(m.Bytes, options()); err == nil {
		t.Error("a rewritten module can be rewritten")
	}
}

// TestNames checks that the names of functions move with them, and that
// other custom sections go.
func TestNames(t *testing.T) {
	var b wasmtest.Builder
	void := b.Type("", "")
	b.Import("env", "first", void)
	b.Memory(1)
	b.Func("second", void, "", nil)
	b.Custom(".debug_info", []byte("dwarf"))
	b.Names()
	m, err := Rewrite(b.Bytes(), options())
	if err != nil {
		t.Fatal(err)
	}
	// Function 0 is env.first, 1 the refill import, 2 second.
	want := "\x04name\x01\x10\x02\x00\x05first\x02\x06second"
	if !bytes.HasSuffix(m.Bytes, []byte(want)) {
		t.Errorf("no name section at the end of %q", m.Bytes)
	}
	if bytes.Contains(m.Bytes, []byte("dwarf")) {
		t.Error("a debug section was kept")
	}
}

func TestResettable(t *testing.T) {
	tests := []struct {
		name string
		code wasmtest.Code
		want bool
	}{
		{"table.get", wasmtest.Code(nil).I32Const(0).Op(0x25, 0).Drop(), true},
		{"table.size", wasmtest.Code(nil).Op(0xfc, 16, 0).Drop(), true},
		{"table.set", wasmtest.Code(nil).I32Const(0).Op(0xd0, 0x70).Op(0x26, 0), false},
		{"table.grow", wasmtest.Code(nil).Op(0xd0, 0x70).I32Const(1).Op(0xfc, 15, 0).Drop(), false},
		{"table.fill", wasmtest.Code(nil).I32Const(0).Op(0xd0, 0x70).I32Const(0).Op(0xfc, 17, 0), false},
		{"table.copy", wasmtest.Code(nil).I32Const(0).I32Const(0).I32Const(0).Op(0xfc, 14, 0, 0), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var b wasmtest.Builder
			void := b.Type("", "")
			b.Table(1, 1)
			b.Memory(1)
			b.Func("f", void, "", tc.code)
			m, err := Rewrite(b.Bytes(), options())
			if err != nil {
				t.Fatal(err)
			}
			if m.Resettable != tc.want {
				t.Errorf("resettable: %v", m.Resettable)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	body := func(code wasmtest.Code) []byte {
		var b wasmtest.Builder
		void := b.Type("", "")
		b.Memory(1)
		b.Func("f", void, "", code)
		return b.Bytes()
	}
	valid := body(nil)
	tests := []struct {
		name string
		wasm []byte
		kind Kind
		msg  string
	}{
		{"empty", nil, Malformed, "not a wasm module"},
		{"too large", append(bytes.Clone(valid), make([]byte, 2000)...), Limit, "more than 1000"},
		{"unknown section", append(bytes.Clone(valid), 13, 0), Malformed, "section 13 is not supported"},
		{"section twice", append(bytes.Clone(valid), 10, 1, 0), Malformed, "code section out of order"},
		{"no such local", body(wasmtest.Code(nil).LocalGet(0).Drop()), Malformed, "local 0 does not exist"},
		{"the fuel", body(wasmtest.Code(nil).GlobalGet(0).Drop()), Malformed, "global 0 does not exist"},
		{"the refill import", body(wasmtest.Code(nil).Call(1)), Malformed, "function 1 does not exist"},
		{"beyond the function's label", body(wasmtest.Code(nil).Br(1)), Malformed, "label 1 does not exist"},
		{"the refill's type", body(wasmtest.Code(nil).Op(0x02, 1, 0x0b)), Malformed, "block type 1 does not exist"},
		{"else without if", body(wasmtest.Code(nil).Op(0x05)), Malformed, "else without if"},
		{"tail call", body(wasmtest.Code(nil).Op(0x12, 0)), Malformed, "tail calls"},
		{"atomics", body(wasmtest.Code(nil).Op(0xfe, 0, 0, 0)), Malformed, "threads"},
		{"exceptions", body(wasmtest.Code(nil).Op(0x06, 0x40)), Malformed, "exceptions"},
		{"relaxed simd", body(wasmtest.Code(nil).Op(0xfd, 0x80, 2)), Malformed, "relaxed SIMD"},
		{"unfinished", body(wasmtest.Code(nil).Op(0x02, 0x40)), Malformed, "unexpected end"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := options()
			o.ModuleBytes = 1000
			_, err := Rewrite(tc.wasm, o)
			var e *Error
			if !errors.As(err, &e) || e.Kind != tc.kind || !strings.Contains(e.Msg, tc.msg) {
				t.Errorf("%v, want %v", err, tc.msg)
			}
		})
	}
}

// TestCompileBombs: small modules of which the engine would make gigabytes.
func TestCompileBombs(t *testing.T) {
	repeat := func(n int, code wasmtest.Code) wasmtest.Code { return bytes.Repeat(code, n) }
	var loads wasmtest.Code
	for range 2000 {
		loads = loads.I32Const(0).Load(0)
	}
	var locals wasmtest.Code
	for i := range uint32(1000) {
		locals = locals.LocalGet(i).I32Const(1).Op(0x6a).LocalSet(i)
	}
	join := wasmtest.Code(nil).I32Const(0).Load(0).If(nil)
	tests := []struct {
		name string
		code wasmtest.Code
		msg  string
	}{
		{"blocks", repeat(5000, wasmtest.Code(nil).Op(0x02, 0x40)), "nested too deep"},
		{"loops", repeat(300, wasmtest.Code(nil).Op(0x03, 0x40)), "nested too deep"},
		{"locals where paths meet", append(repeat(600, join), locals...), "too large to compile"},
		{"operands where paths meet", append(append(loads, repeat(500, join)...), repeat(2000, wasmtest.Code(nil).Drop())...), "too large to compile"},
		{"paths that meet", repeat(40_000, join), "too large to compile"},
		{"results", repeat(6000, wasmtest.Code(nil).Call(0)), "too large to compile"},
		{"branches", append(wasmtest.Code(nil).Op(0x0e, 0xff, 0x3f), repeat(8192, wasmtest.Code(nil).Op(0))...), "too large to compile"},
		{"a long function", repeat(300_000, wasmtest.Code(nil).I32Const(0).Drop()), "too large to compile"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var b wasmtest.Builder
			hundred := b.Type(strings.Repeat(wasmtest.I32, 100), strings.Repeat(wasmtest.I32, 100))
			b.Memory(1)
			b.Func("f", hundred, strings.Repeat(wasmtest.I32, 900), tc.code)
			_, err := Rewrite(b.Bytes(), options())
			var e *Error
			if !errors.As(err, &e) || e.Kind != Limit || !strings.Contains(e.Msg, tc.msg) {
				t.Errorf("%v, want %s", err, tc.msg)
			}
		})
	}
}

// TestVectors: every SIMD instruction has its immediates skipped, so that
// the instruction after it is found.
func TestVectors(t *testing.T) {
	immediates := func(op int) int {
		switch {
		case op <= 11, op == 92, op == 93:
			return 2
		case op == 12, op == 13:
			return 16
		case op >= 21 && op <= 34:
			return 1
		case op >= 84 && op <= 91:
			return 3
		}
		return 0
	}
	for op := range 256 {
		var b wasmtest.Builder
		void := b.Type("", "")
		b.Memory(1)
		code := wasmtest.Code(nil).Op(0xfd, byte(op&0x7f|0x80), byte(op>>7))
		code = append(code, make([]byte, immediates(op))...)
		b.Func("f", void, "", code.Call(7))
		_, err := Rewrite(b.Bytes(), options())
		if err == nil || !strings.Contains(err.Error(), "function 7 does not exist") {
			t.Errorf("opcode 0xfd %d: %v", op, err)
		}
	}
}
