// Package rewrite makes a guest module safe to run: it refuses what the host
// could not bound, and rewrites the rest so that the guest counts its own
// instructions and call depth.
//
// # Fuel
//
// A private mutable global holds the fuel of the current slice. Each basic
// block subtracts its number of instructions from it when it is entered. The
// instructions block, loop, else, end and nop are free. memory.copy, fill and
// init cost one unit more for every 16 bytes, a successful memory.grow 1,024 a
// page, table operations one an entry.
//
// Below zero, a test calls the host's refill import with what is left, which
// answers with the fuel of the next slice or stops the guest. Loops test at the
// beginning of each round, functions on entry unless little is executed until
// they return (see span.go), and long code tests where 4,096 units have been
// executed or called for. So a slice may be overdrawn by some thousand units;
// the overdraft is accounted for, so totals are exact and depend on nothing but
// the guest's input.
//
// A call in a loop makes the engine keep everything where calls leave it, and
// load the memory's address and the globals again where paths meet after it. So
// loops leave themselves to call the host. Of
//
//	loop (result t) body end
//
// the rewriter makes
//
//	block (result t)
//	  loop (result t)
//	    block
//	      loop (result t)
//	        global.get $fuel  i64.const 0  i64.lt_s  br_if 1
//	        body
//	      end
//	      br 2
//	    end
//	    global.get $fuel  call $refill  global.set $fuel
//	    br 0
//	  end
//	end
//
// and counts the labels of branches out of the body anew. Loops that take
// parameters test with an if.
//
// # Depth
//
// Functions that call others count themselves in and out, those with large
// frames several times; beyond the limit the guest sets [ExportFlag] to
// [FlagDepth] and traps.
//
// # Size
//
// The engine's time and memory for a function grow faster than its length. The
// rewriter bounds from above how many values a function has (see weight.go),
// and refuses those that the engine would choke on.
//
// # State
//
// Every mutable global is exported, so that the host can put it back; the
// start function is exported and not run by the engine.
//
// Everything added is found after what was there: types, globals and exports
// keep their indexes; functions shift by the one import that is added.
package rewrite

// Names of what a rewritten module has in addition. They all begin with the
// reserved prefix, which a module must not use itself.
const (
	// Prefix is reserved for exports of the rewriter.
	Prefix = "weir$"
	// ImportModule and ImportRefill name func(left i64) i64.
	ImportModule = Prefix + "host"
	ImportRefill = "refill"
	// ExportFuel is a mutable i64 global: what is left of the slice.
	ExportFuel = Prefix + "fuel"
	// ExportFlag is a mutable i32 global: a Flag.
	ExportFlag = Prefix + "flag"
	// ExportDepth is a mutable i32 global: the call depth.
	ExportDepth = Prefix + "depth"
	// ExportStart is the start function, if there is one: func().
	ExportStart = Prefix + "start"
	// ExportGlobal and a decimal index name the module's own mutable
	// globals.
	ExportGlobal = Prefix + "global."
)

// Flags in ExportFlag.
const (
	FlagMemory = 1 // a memory.grow failed
	FlagDepth  = 2 // the call depth was exceeded
)
