package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"

	"github.com/tetratelabs/wazero/api"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host/internal/rewrite"
)

// An importFunc is a host function. Its parameters are in args; what it
// returns is the result, if its type has one. i32 results are sign-extended.
type importFunc struct {
	params, results string // as in rewrite.FuncType
	call            func(c *invocation, args []uint64) int32
}

// Value types as importFunc spells them.
const i32, i64 = "\x7f", "\x7e"

// typ is the function's type in the binary format.
func (f importFunc) typ() rewrite.FuncType {
	return rewrite.FuncType{Params: f.params, Results: f.results}
}

// abiImports are the functions of module weir.v1.
func abiImports() map[string]importFunc {
	return map[string]importFunc{
		abi.ImportRead:  {i32 + i32 + i32 + i32, i32, traced(abi.ImportRead, importRead)},
		abi.ImportQuery: {i32 + i32 + i32 + i32 + i32, i32, traced(abi.ImportQuery, importQuery)},
		abi.ImportWrite: {i32 + i32 + i32, i32, traced(abi.ImportWrite, importWrite)},
		abi.ImportLog:   {i32 + i32 + i32, i32, traced(abi.ImportLog, importLog)},

		abi.ImportLookup:    {i32 + i32 + i32 + i32, i32, traced(abi.ImportLookup, importLookup)},
		abi.ImportAuthorize: {i32 + i32, i32, traced(abi.ImportAuthorize, importAuthorize)},
	}
}

// traced tells the trace of a call, if it has one, what a guest asks for.
func traced(name string, f func(c *invocation, args []uint64) int32) func(c *invocation, args []uint64) int32 {
	return func(c *invocation, args []uint64) int32 {
		if c.trace == nil {
			return f(c, args)
		}
		// Of a parameter, the upper half is whatever was there.
		before, found := c.spent()-importFuel, len(c.look.found)
		r := f(c, args)
		call := ImportCall{Import: name, Returned: r, Fuel: c.spent() - before}
		memory := func(ptr, n uint64) []byte {
			data, _ := c.guest.memory.Read(uint32(ptr), uint32(n))
			return data
		}
		switch name {
		case abi.ImportLookup, abi.ImportAuthorize:
			call.Data = memory(args[0], uint64(min(uint32(args[1]), abi.MaxLookupRequestBytes)))
			if len(c.look.found) > found {
				call.Lookup = &c.look.found[found]
			}
		case abi.ImportRead, abi.ImportQuery:
			call.Slot = abi.Slot(int32(uint32(args[0])))
			buf, size := args[2], args[3]
			if name == abi.ImportQuery {
				buf, size = args[3], args[4]
				call.Path = string(memory(args[1], uint64(min(uint32(args[2]), abi.MaxPathBytes))))
			}
			if r > 0 && uint32(r) <= uint32(size) {
				call.Data = memory(buf, uint64(r))
			}
		default:
			call.Slot = abi.Slot(int32(uint32(args[0])))
			call.Data = memory(args[1], uint64(max(r, 0)))
		}
		c.trace(call)
		return r
	}
}

// imports are all functions a guest may import, by module and name: those of
// each version of the contract that the host takes, and of WASI.
func imports() map[string]map[string]importFunc {
	return map[string]map[string]importFunc{
		abi.ImportModule: abiImports(),
		wasiModule:       wasiImports(),
	}
}

// importGate tells the gate which imports are allowed.
func importGate(all map[string]map[string]importFunc) func(module, name string, t rewrite.FuncType) error {
	return func(module, name string, t rewrite.FuncType) error {
		if v, ok := versionIn(module, abi.ImportModulePrefix); ok {
			if err := checkVersion(v, abi.Version); err != nil {
				return err
			}
		}
		f, ok := all[module][name]
		if !ok {
			return fmt.Errorf("imports %q.%q, which is not granted", module, name)
		}
		if t != f.typ() {
			return fmt.Errorf("imports %q.%q with another type than it has", module, name)
		}
		return nil
	}
}

// goFunc adapts an importFunc to the engine.
func (f importFunc) goFunc() api.GoFunction {
	call := f.call
	hasResult := f.results != ""
	return api.GoFunc(func(ctx context.Context, stack []uint64) {
		c := invocationOf(ctx)
		c.charge(importFuel)
		r := call(c, stack)
		c.test()
		if hasResult {
			stack[0] = uint64(uint32(r))
		}
	})
}

// engineTypes are value types as the engine names them, which is as the
// binary format does.
func engineTypes(s string) []api.ValueType { return []api.ValueType(s) }

func fail(e abi.Errno) int32 { return -int32(e) }

// give answers with data under the buffer rule.
func (c *invocation) give(data []byte, buf, size uint64) int32 {
	if len(data) <= int(uint32(size)) {
		c.charge(len(data) / bytesPerFuel)
		if !c.guest.memory.Write(uint32(buf), data) {
			return fail(abi.EFAULT)
		}
	}
	return int32(len(data))
}

// input is an input slot, or the errno.
func (c *invocation) input(slot uint64) (*document.Document, int32) {
	s := abi.Slot(int32(uint32(slot)))
	if !s.Input() {
		return nil, fail(abi.EINVAL)
	}
	d := c.inputOf(s)
	if d == nil {
		return nil, fail(abi.ENOENT)
	}
	return d, 0
}

// importRead is abi.ImportRead(slot, off, buf, cap).
func importRead(c *invocation, args []uint64) int32 {
	d, errno := c.input(args[0])
	if errno != 0 {
		return errno
	}
	data, off := d.Bytes(), uint64(uint32(args[1]))
	if off > uint64(len(data)) {
		return fail(abi.EINVAL)
	}
	return c.give(data[off:], args[2], args[3])
}

// importQuery is abi.ImportQuery(slot, path, path_len, buf, cap).
func importQuery(c *invocation, args []uint64) int32 {
	d, errno := c.input(args[0])
	if errno != 0 {
		return errno
	}
	n := uint32(args[2])
	if n > abi.MaxPathBytes {
		return fail(abi.E2BIG)
	}
	c.charge((len(d.Bytes()) + int(n)) / bytesPerFuel)
	text, ok := c.guest.memory.Read(uint32(args[1]), n)
	if !ok {
		return fail(abi.EFAULT)
	}
	if n == 0 {
		return c.give(d.Bytes(), args[3], args[4])
	}
	p, err := c.guest.path(text)
	if err != nil {
		return fail(abi.EINVAL)
	}
	if !p.wildcard {
		v := d.Root().QueryFirst(p.path)
		if !v.Exists() {
			return fail(abi.ENOENT)
		}
		return c.give(v.Raw(), args[3], args[4])
	}
	out := append(c.guest.scratch[:0], '[')
	for v := range d.Root().Query(p.path) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v.Raw()...)
	}
	out = append(out, ']')
	c.guest.scratch = out
	return c.give(out, args[3], args[4])
}

// importWrite is abi.ImportWrite(slot, ptr, len).
func importWrite(c *invocation, args []uint64) int32 {
	slot, n := abi.Slot(int32(uint32(args[0]))), uint32(args[2])
	if !slot.Output() || !c.mayWrite(slot) {
		c.refused = fmt.Sprintf("wrote slot %s (%d), which is not an output here", slot, int32(slot))
		return fail(abi.EINVAL)
	}
	if uint64(n) > uint64(slot.Limit()) {
		c.refused = fmt.Sprintf("wrote %d bytes to slot %s, more than %d", n, slot, slot.Limit())
		return fail(abi.E2BIG)
	}
	c.charge(int(n) / bytesPerFuel)
	data, ok := c.guest.memory.Read(uint32(args[1]), n)
	if !ok {
		c.refused = fmt.Sprintf("wrote slot %s from outside its memory", slot)
		return fail(abi.EFAULT)
	}
	*c.output(slot) = output{data: bytes.Clone(data), written: true}
	return int32(n)
}

// importLog is abi.ImportLog(level, ptr, len).
func importLog(c *invocation, args []uint64) int32 {
	n := uint32(args[2])
	line, ok := c.guest.memory.Read(uint32(args[1]), min(n, abi.MaxLogLineBytes))
	if !ok {
		return fail(abi.EFAULT)
	}
	c.charge(len(line))
	level := slog.LevelInfo
	switch abi.LogLevel(int32(uint32(args[0]))) {
	case abi.LogDebug:
		level = slog.LevelDebug
	case abi.LogWarn:
		level = slog.LevelWarn
	case abi.LogError:
		level = slog.LevelError
	}
	return int32(c.log(level, line))
}

// queryPath is a parsed path of a query.
type queryPath struct {
	path     document.Path
	wildcard bool
}

// parseQuery parses a path and tells whether it has a wildcard.
func parseQuery(text string) (queryPath, error) {
	p, err := document.ParsePath(text)
	if err != nil {
		return queryPath{}, err
	}
	return queryPath{path: p, wildcard: hasWildcard(text)}, nil
}

// hasWildcard tells whether a valid path has [*] outside a quoted name.
func hasWildcard(text string) bool {
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '\'' || c == '"') && i > 0 && text[i-1] == '[':
			quote = c
		case c == '*':
			return true
		}
	}
	return false
}
