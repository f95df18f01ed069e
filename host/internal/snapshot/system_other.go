//go:build !linux

package snapshot

type system struct{}

func (*system) open()        {}
func (*system) close() error { return nil }
func (*system) best() Mode   { return Copy }
func (*system) unwatch()     {}

type imageFile struct{}

func (*Image) openFile([]byte) error { return errSize }
func (*Image) closeFile() error      { return nil }

func (e *Engine) newMapped(limit uint64) (Memory, error) {
	return &heapMemory{limit: limit}, nil
}
