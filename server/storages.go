package server

import (
	"log/slog"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
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
	client       *clientv3.Client
	prefix       string
	leases       *etcd3.Leases
	etcdMetrics  *etcd3.Metrics
	cacheMetrics *cacher.Metrics
	encryption   *encryption.Encryption // nil: rows are stored as they are
	logger       *slog.Logger

	mu     sync.Mutex
	byName map[schema.GroupResource]*cachedStorage // guarded by mu
}

type cachedStorage struct {
	cacher *cacher.Cacher
	// What the cacher was made for; another one is made when these change.
	prefix     string
	namespaced bool
	fields     []registry.Field
}

// get returns the storage of a resource whose keys begin with prefix. Watches on it end when a
// later call comes with another prefix or other selectable fields.
func (s *storages) get(gr schema.GroupResource, prefix string, namespaced bool, fields []registry.Field) (storage.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.byName[gr]; ok {
		if c.prefix == prefix && c.namespaced == namespaced && slices.Equal(c.fields, fields) {
			return c.cacher, nil
		}
		c.cacher.Stop()
		delete(s.byName, gr)
	}
	attrs, err := registry.AttrFunc(namespaced, fields)
	if err != nil {
		return nil, err
	}
	rows, err := etcd3.New(etcd3.Config{Client: s.client, Prefix: s.prefix, Leases: s.leases, Metrics: s.etcdMetrics,
		Group: gr.Group, Resource: gr.Resource, Transformer: s.encryption.For(gr)})
	if err != nil {
		return nil, err
	}
	c, err := cacher.New(cacher.Config{Storage: rows, Prefix: prefix + "/", Resource: gr, GetAttrs: attrs,
		Logger: s.logger, Metrics: s.cacheMetrics})
	if err != nil {
		return nil, err
	}
	s.byName[gr] = &cachedStorage{cacher: c, prefix: prefix, namespaced: namespaced, fields: slices.Clone(fields)}
	return c, nil
}

// drop stops the storage of a resource that is served no more; its watches end.
func (s *storages) drop(gr schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.byName[gr]; ok {
		c.cacher.Stop()
		delete(s.byName, gr)
	}
}

// close stops all.
func (s *storages) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for gr, c := range s.byName {
		c.cacher.Stop()
		delete(s.byName, gr)
	}
}
