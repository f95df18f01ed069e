package hosttest

import (
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
)

// Sinner is a guest that breaks a rule, and what a host has to say about it.
type Sinner struct {
	// Name of the sin, lower_snake.
	Name string
	Wasm []byte
	// AtLoad: the module must not load. Else it loads, and the call of
	// validateCreate (of prepareForCreate if Mutates) must fail.
	AtLoad, Mutates bool
	// Class and Message of the failure; the message is part of the text.
	Class   host.Class
	Message string
}

// Sinners returns all sinners. The limits they are made for are those that
// host.Limits has as defaults.
func Sinners() []Sinner {
	return append(append(loadSinners(), runSinners()...), outputSinners()...)
}

func loadSinners() []Sinner {
	at := func(name string, class host.Class, msg string, wasm []byte) Sinner {
		return Sinner{Name: name, Wasm: wasm, AtLoad: true, Class: class, Message: msg}
	}
	forbidden := NewGuest("forbidden")
	forbidden.Import("env", "system", forbidden.Void)
	ungranted := NewGuest("ungranted")
	ungranted.Import(abi.ImportModule, abi.ImportAuthorize, ungranted.Type(I32+I32, I32))
	mistyped := NewGuest("mistyped")
	mistyped.Import(abi.ImportModule, abi.ImportRead, mistyped.Void)
	borrower := NewGuest("borrower")
	borrower.ImportMemory("env", "memory", 1)
	greedy := NewGuest("greedy")
	greedy.Memory(2000)
	table := NewGuest("table")
	table.Table(1<<27, 1<<27)
	future := NewGuest("future")
	future.Memory(1)
	hidden := NewGuest("hidden")
	reserved := NewGuest("reserved")
	reserved.Func("weir$fuel", reserved.Void, "", nil)
	command := NewGuest("command")
	command.Func("_start", command.Void, "", nil)
	starter := NewGuest("starter")
	starter.Start(starter.Func("", starter.Void, "", Code(nil).Loop(Code(nil).Br(0))))
	locals := NewGuest("locals")
	locals.Body(locals.Void, []byte{1, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b})
	thief := NewGuest("thief")
	// Global 0 does not exist, but would be the fuel in what is rewritten.
	thief.Func("", thief.Void, "", Code(nil).I64Const(1<<40).GlobalSet(0))
	caller := NewGuest("caller")
	// The next function index would be the refill import's.
	caller.Func("", caller.Void, "", Code(nil).Call(1000))
	return []Sinner{
		at("not_wasm", host.ClassABIMismatch, "not a wasm module", []byte("#!/bin/sh")),
		at("component", host.ClassABIMismatch, "a component?", []byte("\x00asm\x0d\x00\x01\x00")),
		at("truncated", host.ClassABIMismatch, "unexpected end", Echo("truncated")[:200]),
		at("imports_the_environment", host.ClassCapability, `"env"."system", which is not granted`, forbidden.Finish(nil)),
		at("imports_what_was_not_granted", host.ClassCapability, `imports "weir.v1"."authorize", and its manifest does not ask for it`, ungranted.Finish(nil)),
		at("imports_with_another_type", host.ClassCapability, "another type", mistyped.Finish(nil)),
		at("imports_its_memory", host.ClassCapability, `"env"."memory" is a memory: only functions can be imported`, borrower.finish(abi.ExportMarker, nil)),
		at("wants_all_memory", host.ClassMemory, "asks for 128000 KiB of memory", greedy.finish(abi.ExportMarker, nil)),
		at("wants_a_huge_table", host.ClassABIMismatch, "table of 134217728 entries", table.Finish(nil)),
		at("wrong_abi", host.ClassABIMismatch, "built for weir_abi_v2", future.finish("weir_abi_v2", nil)),
		at("hides_its_memory", host.ClassABIMismatch, "memories of its own", hidden.finish(abi.ExportMarker, nil)),
		at("exports_a_reserved_name", host.ClassABIMismatch, "reserved", reserved.Finish(nil)),
		at("is_a_command", host.ClassABIMismatch, "a command, not a reactor", command.Finish(nil)),
		at("loops_in_start", host.ClassFuel, "initialisation: fuel exhausted", starter.Finish(nil)),
		at("declares_endless_locals", host.ClassABIMismatch, "locals", locals.Finish(nil)),
		at("sets_the_fuel", host.ClassABIMismatch, "global 0 does not exist", thief.Finish(nil)),
		at("calls_what_is_not_there", host.ClassABIMismatch, "function 1000 does not exist", caller.Finish(nil)),
		at("describes_garbage", host.ClassBadOutput, "manifest", newGuest("{").Finish(nil)),
		at("has_no_name", host.ClassBadOutput, "no name", newGuest(`{"hooks":["default"]}`).Finish(nil)),
		at("has_no_hooks", host.ClassABIMismatch, "no hooks", newGuest(`{"name":"x"}`).Finish(nil)),
		at("invents_a_hook", host.ClassABIMismatch, `hook "levitate" does not exist`, newGuest(`{"name":"x","hooks":["levitate"]}`).Finish(nil)),
		at("asks_for_a_capability", host.ClassCapability, `asks for "lookup:pods", which is not granted; to grant it: spec.capabilities: ["lookup:pods"]`, newGuest(`{"name":"x","hooks":["default"],"capabilities":["lookup:pods"]}`).Finish(nil)),
		at("refuses_its_settings", host.ClassNotReady, "settings refused: no", refuser()),
	}
}

func refuser() []byte {
	g := NewGuest("refuser")
	return g.Finish(g.WriteText(nil, abi.SlotResult, `{"denied":{"message":"no"}}`))
}

// onCall is code that does something in any hook but configure.
func onCall(c Code) Code {
	return Code(nil).LocalGet(0).I32Const(int32(abi.OpConfigure)).Op(opI32Ne).If(c)
}

func runSinners() []Sinner {
	run := func(name string, class host.Class, msg string, build func(*Guest) Code) Sinner {
		g := NewGuest(name)
		return Sinner{Name: name, Class: class, Message: msg, Wasm: g.Finish(onCall(build(g)))}
	}
	return []Sinner{
		run("loops_forever", host.ClassFuel, "fuel exhausted after 50000000 units", func(*Guest) Code {
			return Code(nil).Loop(Code(nil).Br(0))
		}),
		run("calls_without_a_loop", host.ClassFuel, "fuel exhausted", func(g *Guest) Code {
			f := g.Func("", g.Void, "", nil)
			for range 12 {
				var c Code
				for range 8 {
					c = c.Call(f)
				}
				f = g.Func("", g.Void, "", c)
			}
			return Code(nil).Call(f)
		}),
		run("recurses_forever", host.ClassDepth, "calls nested deeper than 2000", func(g *Guest) Code {
			self := g.Next()
			g.Func("", g.Void, "", Code(nil).Call(self))
			return Code(nil).Call(self)
		}),
		run("recurses_through_a_table", host.ClassDepth, "calls nested deeper than 2000", func(g *Guest) Code {
			g.Table(1, 1)
			f := g.Func("", g.Void, "", Code(nil).I32Const(0).Op(0x11).Op(byte(g.Void), 0))
			g.Elements(0, f)
			return Code(nil).Call(f)
		}),
		run("recurses_with_large_frames", host.ClassDepth, "calls nested deeper than 2000", func(g *Guest) Code {
			// 60 MiB of stack at a depth of 1,000.
			const locals = 4000
			self := g.Next()
			var keep, use Code
			for i := range uint32(locals) {
				keep = keep.LocalGet(0).LocalSet(i + 1)
				use = use.LocalGet(i + 1).GlobalSet(0)
			}
			g.Builder.Global(0)
			g.Func("", g.Type(I32, ""), strings.Repeat(I32, locals), append(keep.LocalGet(0).If(
				Code(nil).LocalGet(0).I32Const(1).Op(opI32Sub).Call(self)), use...))
			return Code(nil).I32Const(1000).Call(self)
		}),
		run("traps", host.ClassTrap, "trap: unreachable", func(*Guest) Code { return Code(nil).Unreachable() }),
		run("divides_by_zero", host.ClassTrap, "trap: integer divide by zero", func(*Guest) Code {
			return Code(nil).I32Const(1).I32Const(0).Op(0x6d).Drop()
		}),
		run("reads_outside_its_memory", host.ClassTrap, "trap: out of bounds memory access", func(*Guest) Code {
			return Code(nil).I32Const(-4).Load(0).Drop()
		}),
		run("grows_until_it_traps", host.ClassMemory, "wants more than 65536 KiB", func(*Guest) Code {
			return Code(nil).Loop(Code(nil).
				I32Const(16).MemoryGrow().I32Const(-1).Op(opI32Eq).If(Code(nil).Unreachable()).
				Br(0))
		}),
		run("fills_memory_for_ever", host.ClassFuel, "fuel exhausted", func(*Guest) Code {
			return Code(nil).I32Const(900).MemoryGrow().Drop().Loop(Code(nil).
				I32Const(0).I32Const(0).I32Const(56<<20).Op(0xfc, 11, 0).Br(0))
		}),
		run("reads_for_ever", host.ClassFuel, "fuel exhausted", func(g *Guest) Code {
			return Code(nil).Loop(Code(nil).
				I32Const(int32(abi.SlotObject)).I32Const(0).I32Const(bufferAt).I32Const(30_000).Call(g.Read).Drop().Br(0))
		}),
		run("draws_lots_without_a_loop", host.ClassFuel, "fuel exhausted", func(g *Guest) Code {
			// 16 Ki units each, and not one test of the guest's own.
			random := g.Import("wasi_snapshot_preview1", "random_get", g.Type(I32+I32, I32))
			var c Code
			for range 4000 {
				c = c.I32Const(0).I32Const(1 << 16).Call(random).Drop()
			}
			return c
		}),
		run("fails", host.ClassTrap, "the guest failed: cannot", func(g *Guest) Code {
			return g.WriteText(nil, abi.SlotResult, `{"failure":"cannot"}`).I32Const(int32(abi.StatusFailed)).Return()
		}),
	}
}

func outputSinners() []Sinner {
	bad := func(name, msg string, build func(*Guest) Code) Sinner {
		g := NewGuest(name)
		return Sinner{Name: name, Class: host.ClassBadOutput, Message: "bad output: " + msg, Wasm: g.Finish(onCall(build(g)))}
	}
	mutates := func(s Sinner) Sinner {
		s.Mutates = true
		return s
	}
	text := func(slot abi.Slot, text string) func(*Guest) Code {
		return func(g *Guest) Code { return g.WriteText(nil, slot, text) }
	}
	return []Sinner{
		bad("answers_garbage", "result:", text(abi.SlotResult, `{"errors":`)),
		bad("invents_an_error_type", `result: error type "Oops" does not exist`, text(abi.SlotResult, `{"errors":[{"type":"Oops","field":"a"}]}`)),
		bad("denies_with_success", "result: denied with code 200", text(abi.SlotResult, `{"denied":{"code":200,"message":"ok"}}`)),
		bad("returns_no_status", "status 77", func(*Guest) Code { return Code(nil).I32Const(77).Return() }),
		bad("mutates_where_it_may_not", "wrote slot objectOut (17), which is not an output here", text(abi.SlotObjectOut, `{}`)),
		bad("writes_to_an_input", "wrote slot object (1)", text(abi.SlotObject, `{}`)),
		bad("writes_too_much", "wrote 300000 bytes to slot result, more than 262144", func(g *Guest) Code {
			return Code(nil).I32Const(8).MemoryGrow().Drop().
				I32Const(int32(abi.SlotResult)).I32Const(0).I32Const(300_000).Call(g.Write).Drop()
		}),
		bad("writes_from_outside_its_memory", "wrote slot result from outside its memory", func(g *Guest) Code {
			return Code(nil).I32Const(int32(abi.SlotResult)).I32Const(-10).I32Const(100).Call(g.Write).Drop()
		}),
		mutates(bad("writes_half_an_object", "object:", text(abi.SlotObjectOut, `{"a":`))),
		mutates(bad("writes_a_list", "the object is not a JSON object", text(abi.SlotObjectOut, `[]`))),
		mutates(bad("writes_twice", "both an object and a patch", func(g *Guest) Code {
			return g.WriteText(g.WriteText(nil, abi.SlotObjectOut, `{}`), abi.SlotPatch, `[]`)
		})),
		mutates(bad("patches_what_is_not_there", "patch: operation 0: /no does not exist", text(abi.SlotPatch, `[{"op":"remove","path":"/no"}]`))),
		mutates(bad("nests_too_deep", "object:", text(abi.SlotObjectOut, `{"a":`+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000)+`}`))),
	}
}
