package server

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage/value/encryption"
)

// SetEncryptionIntervals makes tests of encryption quick.
func (c *Config) SetEncryptionIntervals(intervals encryption.Intervals) {
	c.encryptionIntervals = intervals
}

// EtcdRevision is what the health check of the first etcd has heard last.
func (s *Server) EtcdRevision() uint64 { return s.clusters.all[0].health.Revision() }

// WaitDefaults waits until who keeps the default objects has seen the write of a resource that gave it a resourceVersion.
func (s *Server) WaitDefaults(ctx context.Context, resource schema.GroupResource, resourceVersion string) error {
	return s.defaults.followers[resource].WaitFor(ctx, resourceVersion)
}
