package rego

import (
	"encoding/json"
	"errors"
	"fmt"
)

// linkGuest makes a guest of package abi of a module that OPA compiled.
//
// OPA's module imports its memory and a few functions of its host that a policy without
// foreign built-ins never calls. The memory becomes its own. The imports are renamed to
// functions of the same types: those of the contract, and where there is none, ones of WASI
// that do nothing. So indexes stay what they are, and code is only added behind the rest.
func linkGuest(wasm []byte, name string) ([]byte, error) {
	m, err := parseModule(wasm)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{"name": name, "hooks": []string{"admitValidate"}, "sdk": "rego"})
	if err != nil {
		return nil, err
	}
	g := guestCode{module: m}
	marker, describe, invoke := []byte{0x0b}, g.describe(string(manifest)), g.invoke()
	if g.err != nil {
		return nil, g.err
	}
	m.addFunction("weir_abi_v1", "", "", 0, marker)
	m.addFunction("weir_describe", "", "\x7f", 1, describe)
	m.addFunction("weir_invoke", "\x7f", "\x7f", invokeLocals, invoke)
	return m.bytes(), nil
}

// renamed are OPA's imports by the functions that take their place.
var renamed = map[string][2]string{ // never written to
	"opa_builtin0": {"wasi_snapshot_preview1", "args_get"},
	"opa_builtin1": {"weir.v1", "write"},
	"opa_builtin2": {"weir.v1", "read"},
	"opa_builtin3": {"weir.v1", "query"},
	"opa_builtin4": {"wasi_snapshot_preview1", "path_readlink"},
	"opa_abort":    {"wasi_snapshot_preview1", "proc_exit"},
}

// moduleParts are the sections of a module. Those with entries are kept as their number and
// bytes.
type moduleParts struct {
	sections [14][]byte // by id; nil: none
	counts   [14]uint64 // of the sections that entries are added to
	memory   []byte     // limits of the imported memory
	imports  map[string]uint64
	exports  map[string]uint64 // functions
	defined  uint64            // functions, imported ones included
}

// Sections by id.
const (
	sectionType     = 1
	sectionImport   = 2
	sectionFunction = 3
	sectionMemory   = 5
	sectionExport   = 7
	sectionCode     = 10
)

var errModule = errors.New("module that OPA compiled is not understood")

type wasmReader struct {
	data []byte
	bad  bool
}

func (r *wasmReader) take(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.bad, n = true, uint64(len(r.data))
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *wasmReader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *wasmReader) uint() (n uint64) {
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	r.bad = true
	return n
}

func (r *wasmReader) name() string { return string(r.take(r.uint())) }

func parseModule(wasm []byte) (*moduleParts, error) {
	m := &moduleParts{imports: map[string]uint64{}, exports: map[string]uint64{}}
	r := &wasmReader{data: wasm}
	if string(r.take(8)) != "\x00asm\x01\x00\x00\x00" {
		return nil, errModule
	}
	for len(r.data) > 0 && !r.bad {
		id := r.byte()
		body := r.take(r.uint())
		switch {
		case id == 0: // names, which nobody needs
			continue
		case int(id) >= len(m.sections) || m.sections[id] != nil:
			return nil, errModule
		}
		s := &wasmReader{data: body}
		switch id {
		case sectionImport:
			if err := m.parseImports(s); err != nil {
				return nil, err
			}
			continue
		case sectionExport:
			m.counts[id] = s.uint()
			body = s.data
			for range m.counts[id] {
				name, kind, index := s.name(), s.byte(), s.uint()
				if kind == 0 {
					m.exports[name] = index
				}
			}
		case sectionType, sectionFunction, sectionCode:
			m.counts[id] = s.uint()
			body = s.data
		}
		if s.bad {
			return nil, errModule
		}
		m.sections[id] = append([]byte{}, body...)
	}
	if r.bad || m.memory == nil || m.sections[sectionMemory] != nil {
		return nil, errModule
	}
	m.defined = uint64(len(m.imports)) + m.counts[sectionFunction]
	m.sections[sectionMemory] = append([]byte{1}, m.memory...)
	return m, nil
}

// parseImports renames functions and takes the memory.
func (m *moduleParts) parseImports(s *wasmReader) error {
	var out []byte
	for range s.uint() {
		_, name, kind := s.name(), s.name(), s.byte()
		switch kind {
		case 0:
			to, ok := renamed[name]
			if !ok {
				return fmt.Errorf("%w: it imports %s", errModule, name)
			}
			m.imports[name] = uint64(len(m.imports))
			out = appendName(appendName(out, to[0]), to[1])
			out = appendUint(append(out, 0), s.uint())
		case 2:
			before := s.data
			if flags := s.byte(); flags > 1 {
				return errModule
			} else if s.uint(); flags == 1 {
				s.uint()
			}
			m.memory = before[:len(before)-len(s.data)]
		default:
			return errModule
		}
	}
	m.counts[sectionImport] = uint64(len(m.imports))
	m.sections[sectionImport] = out
	return nil
}

// addFunction appends an exported function with so many locals of type i32.
func (m *moduleParts) addFunction(name, params, results string, locals uint64, code []byte) {
	add := func(id int, entry []byte) {
		m.sections[id] = append(m.sections[id], entry...)
		m.counts[id]++
	}
	kind := appendName(appendName([]byte{0x60}, params), results)
	index := m.counts[sectionType]
	add(sectionType, kind)
	add(sectionFunction, appendUint(nil, index))
	add(sectionExport, appendUint(append(appendName(nil, name), 0), m.defined))
	body := []byte{0}
	if locals > 0 {
		body = append(appendUint([]byte{1}, locals), 0x7f)
	}
	body = append(body, code...)
	add(sectionCode, append(appendUint(nil, uint64(len(body))), body...))
	m.defined++
}

func (m *moduleParts) bytes() []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, id := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11} {
		body := m.sections[id]
		if body == nil {
			continue
		}
		switch id {
		case sectionType, sectionImport, sectionFunction, sectionExport, sectionCode:
			body = append(appendUint(nil, m.counts[id]), body...)
		}
		out = append(appendUint(append(out, byte(id)), uint64(len(body))), body...)
	}
	return out
}

func appendUint(b []byte, n uint64) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func appendName(b []byte, s string) []byte { return append(appendUint(b, uint64(len(s))), s...) }

// appendInt appends a signed number.
func appendInt(b []byte, n int64) []byte {
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
