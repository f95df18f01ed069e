package etcd3

// Commit makes an etcd know its size, which it looks at when it commits: every tenth of a second otherwise.
func (e *Embedded) Commit() { e.server.Backend().ForceCommit() }

// ParkAfter is how long an answer waits for its reader.
const ParkAfter = parkAfter

// AheadBytes is how much watches keep together that nobody reads.
const AheadBytes = aheadBytes

// HealthDownPause is the time between two looks at an etcd that is down.
const HealthDownPause = downPause
