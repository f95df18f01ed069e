package hosttest

import (
	"encoding/binary"
	"slices"
)

// Unique returns the module with a custom section that holds a number: a module
// of another digest that does the same.
func Unique(wasm []byte, n int) []byte {
	wasm = append(slices.Clip(wasm), 0, 13, 4, 'w', 'e', 'i', 'r')
	return binary.LittleEndian.AppendUint64(wasm, uint64(n))
}
