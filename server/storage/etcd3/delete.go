package etcd3

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
)

// Delete implements storage.Interface.
func (s *Store) Delete(ctx context.Context, key string, opts storage.DeleteOptions) (storage.Row, error) {
	if err := s.checkKey(key, false); err != nil {
		return storage.Row{}, err
	}
	if opts.Unreadable {
		return s.deleteUnreadable(ctx, key, opts)
	}
	st, fresh, err := s.start(ctx, key, opts.Cached, false)
	if err != nil {
		return storage.Row{}, err
	}
	for {
		if err := deletable(ctx, key, st.row, opts); err != nil {
			if st, err = s.reread(ctx, key, st, &fresh, false, err); err != nil {
				return storage.Row{}, err
			}
			continue
		}
		resp, err := s.remove(ctx, key, int64(st.row.ResourceVersion))
		if err != nil {
			return storage.Row{}, s.failWrite(ctx, key, err)
		}
		if resp.Succeeded {
			return s.row(key, st.data, uint64(resp.Header.Revision))
		}
		if st, err = s.state(ctx, key, first(resp.Responses[0].GetResponseRange().Kvs), false); err != nil {
			return storage.Row{}, err
		}
		fresh = true
	}
}

// deleteUnreadable deletes a row that cannot be read.
func (s *Store) deleteUnreadable(ctx context.Context, key string, opts storage.DeleteOptions) (storage.Row, error) {
	kv, err := s.fetch(ctx, key)
	if err != nil {
		return storage.Row{}, err
	}
	for {
		if kv == nil {
			return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyNotFound, Key: key, Message: "key not found"}
		}
		_, err := s.state(ctx, key, kv, false)
		switch {
		case err == nil:
			return storage.Row{}, &storage.Error{Code: storage.ErrCodeInvalidObj, Key: key,
				Message: "object can be read: it is not deleted as one that cannot"}
		case storage.CodeOf(err) != storage.ErrCodeCorruptObj || ctx.Err() != nil:
			return storage.Row{}, err
		}
		row := storage.Row{Key: key, ResourceVersion: uint64(kv.ModRevision)}
		if err := deletable(ctx, key, row, opts); err != nil {
			return storage.Row{}, err
		}
		resp, err := s.remove(ctx, key, kv.ModRevision)
		if err != nil {
			return storage.Row{}, s.failWrite(ctx, key, err)
		}
		if resp.Succeeded {
			row.ResourceVersion = uint64(resp.Header.Revision)
			return row, nil
		}
		kv = first(resp.Responses[0].GetResponseRange().Kvs)
	}
}

// remove deletes a row when its mod revision is still rev, in one transaction; otherwise it reads it.
func (s *Store) remove(ctx context.Context, key string, rev int64) (*clientv3.TxnResponse, error) {
	if s.health.Down() != nil {
		return nil, errDown
	}
	ctx, cancel := s.boundWrite(ctx)
	defer cancel()
	started := time.Now()
	resp, err := s.client.KV.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
		Then(clientv3.OpDelete(key)).
		Else(clientv3.OpGet(key)).
		Commit()
	s.ops.delete.observe(started, err)
	return resp, err
}

// deletable returns why the row must not be deleted.
func deletable(ctx context.Context, key string, row storage.Row, opts storage.DeleteOptions) error {
	if err := opts.Preconditions.Check(key, row); err != nil {
		return err
	}
	if opts.Validate == nil {
		return nil
	}
	return opts.Validate(ctx, row)
}
