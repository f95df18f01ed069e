package server

import "weir.dev/weir/server/storage/value/encryption"

// SetEncryptionIntervals makes tests of encryption quick.
func (c *Config) SetEncryptionIntervals(intervals encryption.Intervals) {
	c.encryptionIntervals = intervals
}
