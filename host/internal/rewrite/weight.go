package rewrite

import "fmt"

// The engine compiles a function in memory and time that grow with the number
// of its values: what an instruction or a call yields, what a branch carries,
// and what is live where paths meet. A few kilobytes can make gigabytes of
// that. So the rewriter counts them, from above, and the gate refuses a
// function or module with more than these. The largest functions of Go and
// Rust guests have some 20,000 values, a Go guest of 3 MB 1.3 million; the
// engine takes about 1 KiB for each value of a function it is at.
const (
	maxFunctionValues = 1 << 19
	maxModuleValues   = 1 << 24
)

// frameSlots is how many locals and operands the frame of one function may
// have to count as one call. Larger frames count as several, so that depth
// bounds the stack in bytes.
const frameSlots = 256

// push changes the height of the operand stack.
func (f *function) push(n int) {
	f.height = max(0, f.height+n) // below zero is dead code, or invalid
	f.highest = max(f.highest, f.height)
}

// blockValues is what a place where control flow meets costs by itself: the
// engine's time grows with their number squared.
const blockValues = 16

// meet counts what is live where control flow meets.
func (f *function) meet() { f.values += blockValues + int64(f.locals) + int64(f.height) }

// weigh tells whether there are too many values.
func (f *function) weigh() error {
	f.values += f.total
	f.m.values += f.values
	switch {
	case f.values > maxFunctionValues:
		return &Error{Kind: Limit, Msg: fmt.Sprintf("too large to compile: %d values, more than %d", f.values, maxFunctionValues)}
	case f.m.values > maxModuleValues:
		return &Error{Kind: Limit, Msg: fmt.Sprintf("module too large to compile: more than %d values", maxModuleValues)}
	}
	return nil
}

// frameCalls is how many calls the function's frame counts as.
func (f *function) frameCalls() int64 {
	return 1 + (int64(f.locals)+int64(f.highest))/frameSlots
}

// called accounts for a call of a function of type t.
func (f *function) called(t funcType) {
	f.values += int64(len(t.params) + len(t.results))
	f.push(-len(t.params))
	f.push(len(t.results))
}

// stackEffect is by how much an instruction without a case of its own makes
// the operand stack higher.
func stackEffect(op byte) int {
	switch {
	case op == 0x1b, op == 0x1c, op == 0x26, op >= 0x36 && op <= 0x3e: // select, table.set, stores
		return -2
	case op == 0x1a, op == 0x21, op == opGlobalSet: // drop, local.set
		return -1
	case op == opLocalGet, op == opGlobalGet, op == 0x3f, op >= opI32Const && op <= 0x44, op == 0xd0:
		return 1
	case op == 0x45, op == 0x50, op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b,
		op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f: // unary
		return 0
	case op >= 0x46 && op <= 0xa6: // binary
		return -1
	}
	return 0 // conversions, loads, local.tee, table.get, ref.is_null
}

// bulkEffect is stackEffect for what follows 0xfc.
func bulkEffect(op uint32) int {
	switch op {
	case 8, 10, 11, 12, 14, 17:
		return -3
	case 15:
		return -1
	case 16:
		return 1
	}
	return 0
}

// vectorEffect is stackEffect for what follows 0xfd.
func vectorEffect(op uint32) int {
	switch {
	case op == 12: // v128.const
		return 1
	case op == 11, op == 82, op >= 88 && op <= 91: // v128.store, bitselect, stores of lanes
		return -2
	case op <= 10, op >= 15 && op <= 20, op == 92, op == 93: // loads, splats
		return 0
	case op >= 21 && op <= 34: // lanes: extracted, or replaced
		switch op {
		case 23, 26, 28, 30, 32, 34:
			return -1
		}
		return 0
	}
	for _, unary := range [...]struct{ from, to uint32 }{
		{77, 77}, {83, 83}, {94, 100}, {103, 106}, {116, 117}, {122, 122}, {124, 129},
		{131, 132}, {135, 138}, {148, 148}, {160, 161}, {163, 164}, {167, 170}, {192, 193},
		{195, 196}, {199, 202}, {224, 225}, {227, 227}, {236, 237}, {239, 239}, {248, 255},
	} {
		if op >= unary.from && op <= unary.to {
			return 0
		}
	}
	return -1
}
