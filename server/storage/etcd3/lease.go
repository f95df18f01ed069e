package etcd3

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"
)

const (
	// DefaultLeaseReuse is the longest time during which one lease is handed out.
	DefaultLeaseReuse = time.Minute
	// DefaultLeaseMaxObjects is how many rows share one lease at most.
	DefaultLeaseMaxObjects = 1000

	// leaseReuseShare is the part of a TTL that may be added so that a lease can be reused.
	leaseReuseShare = 0.05
)

// LeasesConfig says how leases are shared. Only Client is required.
type LeasesConfig struct {
	Client *clientv3.Client
	// Reuse is how long one lease is handed out, and by how much an object may
	// outlive its TTL, which is never more than a twentieth of the TTL. 0 means DefaultLeaseReuse.
	Reuse time.Duration
	// MaxObjects is how many rows share one lease; 0 means DefaultLeaseMaxObjects.
	MaxObjects int64
	// Metrics is told how many rows a lease got; may be nil.
	Metrics *Metrics
	// Clock is for tests; nil means the real one.
	Clock clock.PassiveClock
}

// Validate returns why the configuration cannot work.
func (c LeasesConfig) Validate() error {
	if c.Client == nil {
		return errors.New("etcd leases: client missing")
	}
	if c.Reuse < 0 || c.MaxObjects < 0 {
		return errors.New("etcd leases: negative limit")
	}
	return nil
}

// Leases hands out leases that several rows share, since a lease for each would be
// most of what etcd has to do. It is safe for concurrent use.
type Leases struct {
	client     *clientv3.Client
	reuse      time.Duration
	maxObjects int64
	clock      clock.PassiveClock
	metrics    *Metrics

	mu      sync.Mutex
	id      clientv3.LeaseID // guarded by mu
	expires time.Time        // guarded by mu
	objects int64            // guarded by mu
}

// NewLeases returns a Leases without any lease yet.
func NewLeases(cfg LeasesConfig) (*Leases, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := &Leases{client: cfg.Client, reuse: cfg.Reuse, maxObjects: cfg.MaxObjects, clock: cfg.Clock, metrics: cfg.Metrics}
	if l.reuse == 0 {
		l.reuse = DefaultLeaseReuse
	}
	if l.maxObjects == 0 {
		l.maxObjects = DefaultLeaseMaxObjects
	}
	if l.clock == nil {
		l.clock = clock.RealClock{}
	}
	return l, nil
}

// Get returns a lease for one row that lives at least ttl seconds; for 0 no lease.
func (l *Leases) Get(ctx context.Context, ttl uint64) (clientv3.LeaseID, error) {
	if ttl == 0 {
		return clientv3.NoLease, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	life := time.Duration(ttl) * time.Second
	extra := min(time.Duration(float64(life)*leaseReuseShare), l.reuse).Truncate(time.Second)
	longEnough := now.Add(life).Before(l.expires)
	shortEnough := !now.Add(life + extra).Before(l.expires)
	if l.id != clientv3.NoLease && longEnough && shortEnough && l.objects < l.maxObjects {
		l.objects++
		return l.id, nil
	}
	resp, err := l.client.Lease.Grant(ctx, int64((life+extra)/time.Second))
	if err != nil {
		return clientv3.NoLease, err
	}
	if l.metrics != nil && l.objects > 0 {
		l.metrics.leased.Observe(float64(l.objects))
	}
	l.id, l.expires, l.objects = resp.ID, now.Add(life+extra), 1
	return l.id, nil
}

// Forget makes Get hand out id no more.
func (l *Leases) Forget(id clientv3.LeaseID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.id = clientv3.NoLease
	}
}
