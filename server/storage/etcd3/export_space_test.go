package etcd3

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// SetDiskFree makes an etcd believe that so many bytes of the disk are free.
func (e *Embedded) SetDiskFree(bytes int64) {
	e.space.diskFree = func(string) (int64, error) { return bytes, nil }
}

// SetRoom has an etcd take writes again only where so many bytes are free.
func (e *Embedded) SetRoom(bytes int64) { e.space.room = bytes }

// SetSpaceClient sets the client by which room is made.
func (e *Embedded) SetSpaceClient(client *clientv3.Client) { e.space.client = client }

// Packed returns how large the database would be if it were defragmented.
func (e *Embedded) Packed(ctx context.Context) (int64, error) {
	return e.space.packed(ctx, e.server.KV().Rev())
}

// Defragment does it.
func (e *Embedded) Defragment() error { return e.server.Defragment() }

// Size returns that of the database.
func (e *Embedded) Size() int64 { return e.server.Backend().Size() }
