package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/registry"
	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/value/encryption"
)

// storages has one cacher per resource, whatever its versions, made when the resource is first built
// and stopped when it is dropped.
type storages struct {
	clusters     *clusters
	prefix       string
	config       StorageConfig
	cacheSizes   map[schema.GroupResource]int
	cacheBudget  *cacher.Budget
	etcdMetrics  *etcd3.Metrics
	cacheMetrics *cacher.Metrics
	counts       *countMetrics
	encryption   *encryption.Encryption // nil: rows are stored as they are
	logger       *slog.Logger

	mu     sync.Mutex
	byName map[schema.GroupResource]*cachedStorage // guarded by mu
}

type cachedStorage struct {
	storage storage.Interface
	cacher  *cacher.Cacher // nil where the resource is served from etcd
	rows    rows           // what it was made for; another one is made when they change
}

func (c *cachedStorage) stop() {
	if c.cacher != nil {
		c.cacher.Stop()
	}
}

// get implements rowStorages. Another storage is made for another prefix, other selectable fields or other schemas, and watches on
// the one before end with it.
func (s *storages) get(gr schema.GroupResource, rows rows) (storage.Interface, func(use bool), error) {
	s.mu.Lock()
	c := s.byName[gr]
	s.mu.Unlock()
	if c != nil && c.rows.same(rows) {
		return c.storage, func(bool) {}, nil
	}
	made, err := s.make(gr, rows)
	if err != nil {
		return nil, nil, err
	}
	return made.storage, func(use bool) {
		if !use {
			made.stop()
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if before := s.byName[gr]; before != nil {
			before.stop()
		}
		s.byName[gr] = made
	}, nil
}

func (s *storages) make(gr schema.GroupResource, rows rows) (*cachedStorage, error) {
	attrs, err := rows.attrs()
	if err != nil {
		return nil, err
	}
	at := s.clusters.of(gr)
	stored, err := etcd3.New(etcd3.Config{Client: at.client, Prefix: s.prefix, Leases: at.leases, Health: at.health, Metrics: s.etcdMetrics,
		Group: gr.Group, Resource: gr.Resource, Transformer: s.encryption.For(gr)})
	if err != nil {
		return nil, err
	}
	made := &cachedStorage{storage: stored, rows: rows}
	size, sized := s.cacheSizes[gr]
	if !s.config.DisableWatchCache && (!sized || size > 0) {
		made.cacher, err = cacher.New(cacher.Config{Storage: stored, Prefix: rows.prefix + "/", Resource: gr, GetAttrs: attrs,
			RingSize: size, RingBytes: s.config.WatchCacheEventBytes, Budget: s.cacheBudget, IdleTimeout: max(s.config.WatchCacheIdleTimeout, 0), CheckInterval: max(s.config.ConsistencyCheckInterval, 0), CheckShare: s.config.checkShare(),
			OnInconsistent: s.config.OnInconsistency, Revision: at.health.Revision, Logger: s.logger, Metrics: s.cacheMetrics})
		if err != nil {
			return nil, err
		}
		made.storage = made.cacher
	}
	return made, nil
}

// same reports whether rows are selected alike.
func (r rows) same(other rows) bool {
	return r.prefix == other.prefix && r.namespaced == other.namespaced && r.schemas == other.schemas && slices.Equal(r.fields, other.fields)
}

// attrs returns what reads what selectors select by.
func (r rows) attrs() (storage.AttrFunc, error) {
	attrs, err := registry.AttrFunc(r.namespaced, r.fields)
	if err != nil || r.upgrade == nil {
		return attrs, err
	}
	return registry.UpgradedAttrs(attrs, r.upgrade), nil
}

// drop stops the storage of a resource that is served no more; its watches end.
func (s *storages) drop(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.byName[gr]; ok {
		c.stop()
		delete(s.byName, gr)
		s.etcdMetrics.Forget(gr.Group, gr.Resource)
		s.cacheMetrics.Forget(gr)
		s.counts.forget(gr)
		s.encryption.Forget(gr)
	}
}

// close stops all.
func (s *storages) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gr, c := range s.byName {
		c.stop()
		delete(s.byName, gr)
	}
}

// list returns what there is.
func (s *storages) list() map[schema.GroupResource]*cachedStorage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byName)
}

// check compares all caches that run with etcd. Its error wraps cacher.ErrInconsistent for those that differ;
// those that could not be compared are left out.
func (s *storages) check(ctx context.Context) error {
	var errs []error
	for gr, c := range s.list() {
		if c.cacher == nil || !c.cacher.Ready() {
			continue
		}
		if err := c.cacher.Check(ctx); errors.Is(err, cacher.ErrInconsistent) {
			errs = append(errs, fmt.Errorf("%s: %w", gr, err))
		}
	}
	return errors.Join(errs...)
}
