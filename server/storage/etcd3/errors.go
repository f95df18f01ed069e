package etcd3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/value"
)

// Upstream's texts, which clients show and some look for.
const (
	expiredList     = "The resourceVersion for the provided list is too old."
	expiredWatch    = "The resourceVersion for the provided watch is too old."
	expiredContinue = "The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list."
)

// longestRetryAfter bounds for how long a client is told to wait for room. Clients of Kubernetes wait as long as they are
// told, ten times in a row, and say nothing to their users meanwhile, who had better hear that the etcd is full.
const longestRetryAfter = 10 * time.Second

// fail returns an error of the etcd client as an error of the storage. ctx is that of the request, see Health.during.
func (s *Store) fail(ctx context.Context, key string, err error) error {
	if down := downDuring(ctx, err); down != nil {
		return unreachable(key, down)
	}
	code := classify(err)
	switch code {
	case 0:
		return fmt.Errorf("key %q: etcd: %w", key, err)
	case storage.ErrCodeNoSpace:
		return s.noSpace(key, err)
	}
	return &storage.Error{Code: code, Key: key, Message: "etcd: " + err.Error(), Err: err}
}

// failWrite is fail for a write, which may have happened although it failed.
func (s *Store) failWrite(ctx context.Context, key string, err error) error {
	if failure := s.health.failure(key, err); failure != nil {
		return failure
	}
	if classify(err) == storage.ErrCodeUnreachable && !unsent(err) {
		return mayHaveHappened(key, err)
	}
	return s.fail(ctx, key, err)
}

// mayHaveHappened returns the error of a write of which nothing is known.
func mayHaveHappened(key string, err error) error {
	return &storage.Error{Code: storage.ErrCodeTimeout, Key: key, Message: "etcd: " + err.Error() + "; the write may have happened", Err: err}
}

// noSpace returns the error of a write that a full etcd has refused.
func (s *Store) noSpace(key string, err error) error {
	e := &storage.Error{Code: storage.ErrCodeNoSpace, Key: key, Message: "etcd: " + err.Error() + ": it takes no writes but deletions until " +
		"its history is compacted (etcdctl compaction REVISION), each member defragmented (etcdctl defrag) and the alarm taken back " +
		"(etcdctl alarm disarm)", Err: err}
	if full := s.health.full(); full != nil {
		e.Message = full.Error()
		if full.Freeing {
			e.Code = storage.ErrCodeNotReady
		}
		if full.Freeing && !full.NotBefore.IsZero() {
			e.RetryAfter = min(full.NotBefore.Sub(s.health.embedded.space.clock.Now()), longestRetryAfter)
		}
	}
	if e.Code == storage.ErrCodeNoSpace {
		s.health.refused(e.Message)
	}
	return e
}

func unreachable(key string, err error) *storage.Error {
	return &storage.Error{Code: storage.ErrCodeUnreachable, Key: key, Message: err.Error(), Err: err}
}

// unsent reports whether a request certainly did not reach etcd, or was refused by it. The texts are those by which
// etcd's client itself decides whether it may send a write again, and gRPC's when it has no connection.
func unsent(err error) bool {
	if errors.Is(err, clientv3.ErrNoAvailableEndpoints) || errors.Is(err, rpctypes.ErrTooManyRequests) || errors.Is(err, rpctypes.ErrNoLeader) {
		return true
	}
	for _, text := range []string{"there is no address available", "there is no connection available", "connection error: desc", raft.ErrStopped.Error()} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// classify returns the code of an error of the etcd client, 0 where there is none:
// the caller has gone away, or nothing can be done.
func classify(err error) storage.ErrorCode {
	switch {
	case errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, rpctypes.ErrTimeout),
		errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail),
		errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost),
		errors.Is(err, rpctypes.ErrTimeoutWaitAppliedIndex):
		return storage.ErrCodeTimeout
	case errors.Is(err, rpctypes.ErrNoSpace):
		return storage.ErrCodeNoSpace
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return storage.ErrCodeTooLarge
	case errors.Is(err, rpctypes.ErrCompacted):
		return storage.ErrCodeExpired
	case errors.Is(err, rpctypes.ErrFutureRev):
		return storage.ErrCodeResourceVersionTooLarge
	case errors.Is(err, clientv3.ErrNoAvailableEndpoints), errors.Is(err, rpctypes.ErrTooManyRequests):
		return storage.ErrCodeUnreachable
	}
	// The embedded server says so without a code of its own.
	if strings.Contains(err.Error(), raft.ErrStopped.Error()) {
		return storage.ErrCodeUnreachable
	}
	switch codeOf(err) {
	case codes.Unavailable:
		return storage.ErrCodeUnreachable
	case codes.DeadlineExceeded:
		return storage.ErrCodeTimeout
	case codes.ResourceExhausted:
		// gRPC's own limit, met before etcd's.
		if strings.Contains(err.Error(), "larger than max") {
			return storage.ErrCodeTooLarge
		}
		return storage.ErrCodeUnreachable
	case codes.Canceled:
		// The context was asked about first: the client has been closed.
		return storage.ErrCodeUnreachable
	}
	return 0
}

// codeOf returns the gRPC code of an error of the etcd client.
func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	if errors.As(err, &etcd) {
		return etcd.Code()
	}
	return status.Code(err)
}

func tooLargeRevision(want, current uint64) error {
	return &storage.Error{
		Code:            storage.ErrCodeResourceVersionTooLarge,
		ResourceVersion: current,
		Message:         fmt.Sprintf("Too large resource version: %d, current: %d", want, current),
	}
}

// deletedUnreadable ends a watch that cannot show what was deleted, with upstream's words.
func deletedUnreadable(key string, rv uint64, err error) error {
	return &storage.Error{Code: storage.ErrCodeCorruptObj, Key: key, ResourceVersion: rv, Err: err,
		Message: "saw a DELETED event, but object data is corrupt - " + err.Error()}
}

// untransformed returns the error of a transformer that cannot work now, and nil where err is of another kind. The
// row itself may be well.
func untransformed(key string, err error) error {
	var unavailable *value.UnavailableError
	if !errors.As(err, &unavailable) {
		return nil
	}
	return &storage.Error{Code: storage.ErrCodeUnreachable, Key: key, Message: "encryption: " + err.Error(), Err: err}
}

// corrupt returns the error about a row that cannot be read.
func corrupt(key string, err error) error {
	if err := untransformed(key, err); err != nil {
		return err
	}
	var e *storage.Error
	if errors.As(err, &e) && e.Code == storage.ErrCodeCorruptObj && e.Key == "" {
		return &storage.Error{Code: e.Code, Key: key, Message: e.Message, Err: e.Err}
	}
	return &storage.Error{Code: storage.ErrCodeCorruptObj, Key: key, Message: "stored object cannot be read: " + err.Error(), Err: err}
}
