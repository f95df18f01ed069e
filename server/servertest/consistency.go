package servertest

import (
	"context"
	"errors"
	"time"

	"weir.dev/weir/server"
)

const (
	// checkInterval is how often the caches of an Environment are compared with etcd.
	checkInterval = time.Second
	// lastCheck bounds the comparison when a server stops.
	lastCheck = 5 * time.Second
)

// watchCaches has the caches compared with etcd all the time, unless the test wants it otherwise. A
// difference is an error of Close, and so fails the test.
func (e *Environment) watchCaches() {
	if e.config.Storage.ConsistencyCheckInterval == 0 {
		e.config.Storage.ConsistencyCheckInterval = checkInterval
	}
	tell := e.config.Storage.OnInconsistency
	if tell == nil {
		tell = e.inconsistent
	}
	e.config.Storage.OnInconsistency = tell
}

func (e *Environment) inconsistent(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrong = append(e.wrong, err)
}

// Inconsistencies returns what comparisons of the caches with etcd have found wrong so far; nil: nothing.
func (e *Environment) Inconsistencies() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.wrong...)
}

// compareCaches compares all caches once more before a server stops. An etcd that does not answer is no difference.
func (e *Environment) compareCaches(running *server.Server) error {
	if running == nil || e.config.Storage.ConsistencyCheckInterval < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastCheck)
	defer cancel()
	return running.CheckConsistency(ctx)
}
