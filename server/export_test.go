package server

import "weir.dev/weir/server/storage/value/encryption"

// SetEncryptionIntervals makes tests of encryption quick.
func (c *Config) SetEncryptionIntervals(intervals encryption.Intervals) {
	c.encryptionIntervals = intervals
}

// EtcdRevision is what the health check of the first etcd has heard last.
func (s *Server) EtcdRevision() uint64 { return s.clusters.all[0].health.Revision() }
