package etcd3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage"
)

// GuaranteedUpdate implements storage.Interface.
func (s *Store) GuaranteedUpdate(ctx context.Context, key string, opts storage.UpdateOptions, update storage.UpdateFunc) (storage.Row, error) {
	if err := s.checkKey(key, false); err != nil {
		return storage.Row{}, err
	}
	st, fresh, err := s.start(ctx, key, opts.Cached, opts.IgnoreNotFound)
	if err != nil {
		return storage.Row{}, err
	}
	for {
		next, err := s.compute(ctx, key, st, opts.Preconditions, update)
		if err != nil {
			if st, err = s.reread(ctx, key, st, &fresh, opts.IgnoreNotFound, err); err != nil {
				return storage.Row{}, err
			}
			continue
		}
		if next.same(st) {
			if fresh {
				return st.row, nil
			}
			// The guess may be old: only what etcd holds shows that there is nothing to do.
			if st, err = s.current(ctx, key, opts.IgnoreNotFound); err != nil {
				return storage.Row{}, err
			}
			fresh = true
			if !bytes.Equal(next.data, st.data) {
				continue
			}
			if next.same(st) {
				return st.row, nil
			}
		}
		resp, err := s.put(ctx, &s.ops.update, key, int64(st.row.ResourceVersion), next.stored, next.ttl, []clientv3.Op{clientv3.OpGet(key)})
		if err != nil {
			return storage.Row{}, err
		}
		if resp.Succeeded {
			return s.row(key, next.data, uint64(resp.Header.Revision))
		}
		if st, err = s.state(ctx, key, first(resp.Responses[0].GetResponseRange().Kvs), opts.IgnoreNotFound); err != nil {
			return storage.Row{}, err
		}
		fresh = true
	}
}

// computed is what an UpdateFunc made of a state.
type computed struct {
	data, stored []byte
	ttl          uint64
}

// same reports whether there is nothing to write.
func (c computed) same(st state) bool {
	return !st.row.Value.IsZero() && !st.stale && bytes.Equal(c.data, st.data)
}

// compute checks the preconditions and runs the UpdateFunc.
func (s *Store) compute(ctx context.Context, key string, st state, p *storage.Preconditions, update storage.UpdateFunc) (computed, error) {
	if err := p.Check(key, st.row); err != nil {
		return computed{}, err
	}
	served, ttl, err := update(st.row)
	if err != nil {
		return computed{}, err
	}
	if served == nil {
		return computed{}, fmt.Errorf("key %q: update function returned no value", key)
	}
	data, stored, err := s.encode(ctx, key, served)
	return computed{data: data, stored: stored, ttl: ttl}, err
}

// start returns the state a write begins with, and whether it was just read.
func (s *Store) start(ctx context.Context, key string, cached storage.Row, ignoreNotFound bool) (st state, fresh bool, err error) {
	if st, ok := s.guess(key, cached); ok {
		return st, false, nil
	}
	st, err = s.current(ctx, key, ignoreNotFound)
	return st, true, err
}

// reread is called when why stopped a write that began with st. Where st was only a
// guess and turns out to be old, it returns the current state to begin again with;
// else why is the error.
func (s *Store) reread(ctx context.Context, key string, st state, fresh *bool, ignoreNotFound bool, why error) (state, error) {
	if *fresh {
		return state{}, why
	}
	now, err := s.current(ctx, key, ignoreNotFound)
	if err != nil {
		return state{}, err
	}
	*fresh = true
	if now.row.ResourceVersion == st.row.ResourceVersion {
		return state{}, why
	}
	return now, nil
}

// put stores a row when its mod revision is still rev, in one transaction; otherwise
// it runs the operations of orElse.
func (s *Store) put(ctx context.Context, op *operation, key string, rev int64, stored []byte, ttl uint64, orElse []clientv3.Op) (*clientv3.TxnResponse, error) {
	if s.health.Down() != nil {
		return nil, s.failWrite(ctx, key, errDown)
	}
	ctx, cancel := s.boundWrite(ctx)
	defer cancel()
	for retried := false; ; retried = true {
		lease, err := s.leases.Get(ctx, ttl)
		if err != nil {
			return nil, s.fail(ctx, key, err)
		}
		var opts []clientv3.OpOption
		if lease != clientv3.NoLease {
			opts = []clientv3.OpOption{clientv3.WithLease(lease)}
		}
		put := clientv3.OpPut(key, "", opts...)
		put.WithValueBytes(stored) // as a string it would be copied twice
		started := time.Now()
		resp, err := s.client.KV.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", rev)).
			Then(put).
			Else(orElse...).
			Commit()
		op.observe(started, err)
		if err == nil {
			return resp, nil
		}
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			return s.outOfSpace(ctx, key, rev, stored, err)
		case !errors.Is(err, rpctypes.ErrLeaseNotFound) || retried:
			return nil, s.failWrite(ctx, key, err)
		}
		// A shared lease has been revoked meanwhile.
		s.leases.Forget(lease)
	}
}

// outOfSpace returns how a put ended of which etcd said that it has no space: that is also what it says of the write by which it
// becomes full, which it has done. Once it is full, it refuses a write before it compares revisions. So what is there tells, and
// is returned as a transaction would: the put was done, or the row is another than it was to replace. One that another has
// overwritten since is taken for the latter.
func (s *Store) outOfSpace(ctx context.Context, key string, rev int64, stored []byte, refused error) (*clientv3.TxnResponse, error) {
	if full := s.health.full(); full != nil && full.Blocked {
		return nil, s.failWrite(ctx, key, refused) // what is there is not told now
	}
	kv, err := s.fetch(ctx, key)
	switch now := kv.GetModRevision(); {
	case err != nil && s.health.full() != nil: // the embedded one does not do what it refuses
		return nil, s.failWrite(ctx, key, refused)
	case err != nil:
		return nil, mayHaveHappened(key, refused)
	case now == rev:
		return nil, s.failWrite(ctx, key, refused)
	case now > rev && bytes.Equal(kv.Value, stored):
		return &clientv3.TxnResponse{Succeeded: true, Header: &etcdserverpb.ResponseHeader{Revision: now}}, nil
	}
	found := &etcdserverpb.RangeResponse{}
	if kv != nil {
		found.Kvs = []*mvccpb.KeyValue{kv}
	}
	return &clientv3.TxnResponse{Responses: []*etcdserverpb.ResponseOp{{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: found}}}}, nil
}
