package storage

import "context"

// Memory is what a read carries in its context that is to come from a cache in whatever state it has, as one inside
// another object's transaction: it asks the storage for nothing. A cache that is not filled starts to be, and the read
// fails with ErrCodeNotReady. What has no cache answers from the storage all the same, and counts too. It belongs to
// one goroutine.
type Memory struct {
	// Wait for a cache that is being filled, as long as a list waits for one.
	Wait bool
	// MaxRows that a list may look at; 0: any number. One that would look at more fails with ErrCodeTooLarge.
	MaxRows int
	// Rows that the last list has looked at: those in the order of keys up to the last one that was needed. It does not
	// depend on whether there is an index.
	Rows int
	// Exceeded: MaxRows was not enough for the last list.
	Exceeded bool
}

type memoryKey struct{}

// WithMemory returns a context whose reads come from memory, and tell m about it.
func WithMemory(ctx context.Context, m *Memory) context.Context {
	return context.WithValue(ctx, memoryKey{}, m)
}

// MemoryFrom returns the Memory of a context, nil where there is none.
func MemoryFrom(ctx context.Context) *Memory {
	m, _ := ctx.Value(memoryKey{}).(*Memory)
	return m
}

// Look notes that a list has looked at a number of rows. The error has ErrCodeTooLarge, where that is more than may be. A
// nil Memory bounds nothing.
func (m *Memory) Look(rows int) error {
	if m == nil {
		return nil
	}
	m.Rows, m.Exceeded = rows, m.MaxRows > 0 && rows > m.MaxRows
	if m.Exceeded {
		m.Rows = m.MaxRows
		return &Error{Code: ErrCodeTooLarge, Message: "the list would look at too many objects"}
	}
	return nil
}
