package etcd3

import "context"

// SetDiskFree makes an etcd believe that so many bytes of the disk are free.
func (e *Embedded) SetDiskFree(bytes int64) {
	e.space.diskFree = func(string) (int64, error) { return bytes, nil }
}

// Packed returns how large the database would be if it were defragmented.
func (e *Embedded) Packed(ctx context.Context) (int64, error) { return e.space.packed(ctx) }

// Defragment does it.
func (e *Embedded) Defragment() error { return e.server.Defragment() }

// Size returns that of the database.
func (e *Embedded) Size() int64 { return e.server.Backend().Size() }
