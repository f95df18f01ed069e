package etcd3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	etcdstorage "go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"k8s.io/utils/clock"
)

// DefaultQuotaBytes is the largest quota that etcd advises.
const DefaultQuotaBytes = etcdstorage.MaxQuotaBytes

const (
	// spaceInterval is how often it is looked whether an embedded etcd is full, and fullInterval whether one that was full of
	// objects has lost some.
	spaceInterval = time.Second
	fullInterval  = 5 * time.Second
	// defragmentRest is for how many times as long as a defragmentation took there is no other: the etcd is blocked by
	// them for a twentieth of the time at most, also where each frees next to nothing.
	defragmentRest = 19
	// compactionTimeout bounds the wait for a compaction, which goes on behind it.
	compactionTimeout = 10 * time.Minute
	compactionPoll    = 20 * time.Millisecond
	// settleCommits: a page is freed in one transaction, found free in a later one, which no reader may be older than, and
	// counted at the end of that.
	settleCommits = 4
)

// FullError says that an embedded etcd takes no writes but deletions.
type FullError struct {
	// Freeing says that space is being made, and writes will be taken again by themselves. Otherwise objects, not their
	// history, fill the quota.
	Freeing bool
	// Blocked says that it is being defragmented: nothing is answered until that is done.
	Blocked bool
	// NotBefore is when it is defragmented, where that is put off because the last time is not long ago.
	NotBefore time.Time
	// Bytes is the size of the database, QuotaBytes the one from which writes are refused.
	Bytes, QuotaBytes int64
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("embedded etcd is full: %d bytes of a quota of %d; ", e.Bytes, e.QuotaBytes)
	switch {
	case !e.NotBefore.IsZero():
		return text + "its history is dropped, and it is defragmented after " + e.NotBefore.Format(time.RFC3339) +
			", as it was not long ago and answers nothing meanwhile; then writes are taken again. Better start with a larger --embedded-etcd-quota-backend-bytes"
	case e.Freeing:
		return text + "its history is being dropped and its file defragmented, then writes are taken again: try again"
	}
	return text + "objects take them, not their history: delete objects, or start with a larger --embedded-etcd-quota-backend-bytes. " +
		"Deletions go on, but for those that first write to the object, as for finalizers and grace periods"
}

// space makes room in an embedded etcd that is full. etcd then raises an alarm, under which it takes no writes until
// the alarm is taken back; what its quota bounds is the size of the file, which only a defragmentation makes smaller.
type space struct {
	server *etcdserver.EtcdServer
	client *clientv3.Client
	quota  int64
	// room is what must be free for writes to be taken again: the largest of them.
	room   int64
	clock  clock.Clock
	logger *slog.Logger

	full atomic.Pointer[FullError] // nil: it takes writes
	// compacted is the revision up to which history is dropped, packed what the last defragmentation of this alarm left,
	// nil for none, rest until when there is no other. Only run uses them.
	compacted int64
	packed    *packed
	rest      time.Time

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// packed is what a defragmentation left at a revision: rows, and the bytes that each takes on average.
type packed struct {
	revision, rows, perRow int64
}

// start makes room where there is none, and then whenever there is none until close.
func (s *space) start(ctx context.Context) {
	s.clean(ctx)
	next := s.look(ctx)
	background, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() { s.run(background, next) })
}

// clean removes what defragmentations have left that ended with the process.
func (s *space) clean(ctx context.Context) {
	dir := s.server.Cfg.SnapDir()
	files, err := os.ReadDir(dir)
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "db.tmp.") {
			err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
		}
	}
	if err != nil {
		s.logger.WarnContext(ctx, "what defragmentations have left is not removed", "error", err)
	}
}

// close waits for what is under way. A defragmentation is not broken off.
func (s *space) close() {
	if s.cancel != nil {
		s.cancel()
		s.done.Wait()
	}
}

func (s *space) run(ctx context.Context, next time.Duration) {
	for {
		timer := s.clock.NewTimer(next)
		select {
		case <-timer.C():
			next = s.look(ctx)
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look makes room if the etcd is full, and returns when to look again.
func (s *space) look(ctx context.Context) time.Duration {
	var alarm *etcdserverpb.AlarmMember
	for _, a := range s.server.Alarms() {
		if a.GetAlarm() == etcdserverpb.AlarmType_NOSPACE {
			alarm = a
		}
	}
	if alarm == nil {
		s.full.Store(nil)
		s.packed = nil
		return spaceInterval
	}
	if s.full.Load() == nil {
		s.set(FullError{Freeing: true})
		s.logger.WarnContext(ctx, "embedded etcd is full: its history is dropped, and it is defragmented if that helps",
			"bytes", s.server.Backend().Size(), "quotaBytes", s.quota)
	}
	freed, err := s.free(ctx)
	if err == nil && freed {
		_, err = s.client.Maintenance.AlarmDisarm(ctx, (*clientv3.AlarmMember)(alarm))
	}
	switch {
	case err != nil:
		if ctx.Err() == nil {
			s.logger.ErrorContext(ctx, "embedded etcd is full, and making room failed", "error", err)
		}
		return fullInterval
	case !freed:
		return fullInterval
	}
	s.full.Store(nil)
	s.packed = nil
	s.logger.InfoContext(ctx, "embedded etcd takes writes again", "bytes", s.server.Backend().Size(), "quotaBytes", s.quota)
	return spaceInterval
}

// free reports whether there is room, after it has dropped the history and, where that may give room, defragmented.
func (s *space) free(ctx context.Context) (bool, error) {
	if err := s.compact(ctx); err != nil {
		return false, err
	}
	if err := s.settle(ctx); err != nil {
		return false, err
	}
	gain, err := s.gain(ctx)
	if err != nil {
		return false, err
	}
	backend := s.server.Backend()
	size := backend.Size()
	switch {
	case size+s.room <= s.quota:
		return true, nil // the quota is a larger one than it was
	case gain < s.room:
		s.fullOfObjects(ctx)
		return false, nil
	case s.clock.Now().Before(s.rest):
		s.set(FullError{Freeing: true, NotBefore: s.rest})
		return false, nil
	}
	s.set(FullError{Freeing: true, Blocked: true})
	began := s.clock.Now()
	err = s.server.Defragment()
	took := s.clock.Since(began)
	s.rest = s.clock.Now().Add(max(defragmentRest*took, fullInterval))
	s.set(FullError{Freeing: true})
	if err != nil {
		return false, fmt.Errorf("defragment: %w", err)
	}
	s.logger.InfoContext(ctx, "embedded etcd was defragmented", "bytesBefore", size, "bytes", backend.Size(), "took", took)
	if backend.Size()+s.room > s.quota {
		s.fullOfObjects(ctx)
		rows, err := s.rows(ctx)
		s.packed = &packed{revision: s.compacted, rows: rows, perRow: backend.Size() / max(rows, 1)}
		return false, err
	}
	return true, nil
}

// gain returns by how much a defragmentation would make the file smaller, roughly: by the pages that are free, or by those
// that would be if the rows that are gone had not lain between others. The latter is known only since the last one.
func (s *space) gain(ctx context.Context) (int64, error) {
	switch {
	case s.packed == nil:
		return s.quota, nil
	case s.packed.revision == s.compacted:
		return 0, nil
	}
	rows, err := s.rows(ctx)
	backend := s.server.Backend()
	return max(backend.Size()-backend.SizeInUse(), (s.packed.rows-rows)*s.packed.perRow), err
}

// rows counts them.
func (s *space) rows(ctx context.Context) (int64, error) {
	resp, err := s.client.KV.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("count rows: %w", err)
	}
	return resp.Count, nil
}

// compact drops all history, without the write by which servers agree on who does: it would be refused.
func (s *space) compact(ctx context.Context) error {
	rev := s.server.KV().Rev()
	if rev == s.compacted {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, compactionTimeout)
	defer cancel()
	if _, err := s.client.KV.Compact(ctx, rev); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact revision %d: %w", rev, err)
	}
	// A compaction that is asked to be waited for would not end with ctx.
	poll := time.NewTicker(compactionPoll)
	defer poll.Stop()
	for s.finished() < rev {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("compact revision %d: %w", rev, ctx.Err())
		}
	}
	s.compacted = rev
	return nil
}

// settle has pages that hold nothing any more counted as such. bbolt does so some transactions later, and there is
// none unless something was proposed.
func (s *space) settle(ctx context.Context) error {
	for range settleCommits {
		if _, err := s.client.Maintenance.AlarmList(ctx); err != nil {
			return err
		}
		s.server.Backend().ForceCommit()
	}
	return nil
}

// finished returns the revision up to which the history is gone.
func (s *space) finished() int64 {
	tx := s.server.Backend().ReadTx()
	tx.RLock()
	defer tx.RUnlock()
	rev, _ := mvcc.UnsafeReadFinishedCompact(tx)
	return rev
}

// why returns why a write was refused, also one that was before that is noticed here.
func (s *space) why() *FullError {
	if full := s.full.Load(); full != nil {
		return full
	}
	return &FullError{Freeing: true, Bytes: s.server.Backend().Size(), QuotaBytes: s.quota}
}

// fullOfObjects says so, in the log once.
func (s *space) fullOfObjects(ctx context.Context) {
	known := s.full.Load()
	s.set(FullError{})
	if known == nil || known.Freeing {
		s.logger.ErrorContext(ctx, "embedded etcd takes no writes", "error", s.full.Load())
	}
}

func (s *space) set(e FullError) {
	e.Bytes, e.QuotaBytes = s.server.Backend().Size(), s.quota
	s.full.Store(&e)
}
