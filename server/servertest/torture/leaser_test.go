package torture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// objectLife is how long an Event is kept where there are leases.
const objectLife = 2 * time.Second

// leaser puts objects into etcd itself, several with one lease, which all go at one revision. A server has each lease
// for itself, as a time as short as objectLife leaves none in which another object could have it too.
type leaser struct {
	id     int
	run    *run
	random *rand.Rand
	made   int
}

// leasedKey is the key of an object of a batch.
func leasedKey(batch, i int) string { return fmt.Sprintf("x%05d-%d", batch, i) }

// leasedLeast is how many objects a batch has at least.
const leasedLeast = 3

// leased chooses one of those that go soon.
func (b *board) leased(random *rand.Rand) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return leasedKey(b.batch, random.IntN(leasedLeast))
}

func (b *board) nextBatch() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batch++
	return b.batch
}

// work puts until ctx is done.
func (l *leaser) work(ctx context.Context) {
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.put(l.run.board.nextBatch(), leasedLeast+l.random.IntN(6))
		case <-ctx.Done():
			return
		}
	}
}

// put makes a batch. It is not cut off at the end of the run, so that few outcomes are unknown.
func (l *leaser) put(batch, objects int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.run.context), requestTime)
	defer cancel()
	call := l.run.now()
	c := l.run.recorder.client
	lease, err := c.Grant(ctx, int64(objectLife/time.Second))
	if err != nil {
		return
	}
	for i := range objects {
		l.made++
		o := object{key: leasedKey(batch, i), value: fmt.Sprintf("l%d-%d", l.id, l.made), side: []string{"left", "right"}[l.random.IntN(2)]}
		op := &operation{client: l.id, kind: create, object: o, call: call}
		o.uid = uuid.NewString()
		of := l.run.resource
		key := of.stored() + o.key
		body := of.body(o, "", [2]string{"namespace", namespace}, [2]string{"creationTimestamp", time.Now().UTC().Format(time.RFC3339)})
		resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, body, clientv3.WithLease(lease.ID))).Commit()
		op.end = l.run.now()
		switch {
		case err != nil:
			op.outcome = unknown
		case !resp.Succeeded:
			op.outcome = exists
		default:
			op.got = o
			op.got.rv = resp.Header.Revision
			l.run.board.heard(op.got)
		}
		l.run.operations.add(op)
	}
}
