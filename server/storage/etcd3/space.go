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
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"k8s.io/utils/clock"
)

// DefaultQuotaBytes is the largest quota that etcd advises.
const DefaultQuotaBytes = etcdstorage.MaxQuotaBytes

const (
	// spaceInterval is how often it is looked whether an embedded etcd is full, and fullInterval whether one that is full can
	// be made less so.
	spaceInterval = time.Second
	fullInterval  = 5 * time.Second
	// restShare is for how many times as long as a defragmentation took there is no other: the etcd is blocked by
	// them for a twentieth of the time at most, also where each frees next to nothing. So it is with reading it whole.
	restShare = 19
	// failureRest is for how long nothing is tried when that has failed.
	failureRest = time.Minute
	// objectsRest is for how long at least the history of an etcd that is full of objects is kept although some were deleted,
	// where they seem to be too few.
	objectsRest    = 2 * time.Minute
	compactionPoll = 20 * time.Millisecond
	// diskMargin is what a defragmentation leaves of the disk to what else is written: etcd ends when it has no room for
	// the next file of its log, of 64 MB.
	diskMargin = 128 << 20
)

// FullError says that an embedded etcd takes no writes but deletions. Where it is neither Freeing nor has an Err, objects,
// not their history, fill the quota.
type FullError struct {
	// Freeing says that space is being made, or will be at NotBefore, and writes are taken again by themselves unless it is
	// found then that objects fill the quota.
	Freeing bool
	// Blocked says that it is being defragmented: nothing is answered until that is done.
	Blocked bool
	// Err is why no space could be made. It is tried again.
	Err error
	// NotBefore is when space is made, where that is put off because the last time is not long ago.
	NotBefore time.Time
	// Bytes is the size of the database, QuotaBytes the one from which writes are refused.
	Bytes, QuotaBytes int64
}

func (e *FullError) Error() string {
	text := fmt.Sprintf("embedded etcd is full: %d bytes of a quota of %d; ", e.Bytes, e.QuotaBytes)
	switch {
	case e.Err != nil:
		return text + "making room failed, and is tried again after " + e.NotBefore.Format(time.RFC3339) + ": " + e.Err.Error()
	case !e.NotBefore.IsZero():
		return text + "its history is dropped, and it is defragmented if that helps, after " + e.NotBefore.Format(time.RFC3339) +
			": it was not long ago, and answers nothing meanwhile. Then writes are taken again, unless objects fill it. " +
			"Better delete objects, or start with a larger --embedded-etcd-quota-backend-bytes"
	case e.Freeing:
		return text + "its history is being dropped and its file defragmented, then writes are taken again unless objects fill it: try again"
	}
	return text + "objects take them, not their history: delete objects, or start with a larger --embedded-etcd-quota-backend-bytes. " +
		"Deletions go on, but for those that first write to the object, as for finalizers and grace periods"
}

// space makes room in an embedded etcd that is full. etcd then raises an alarm, under which it takes no writes until
// the alarm is taken back; what its quota bounds is the size of the file, which only a defragmentation makes smaller.
//
// While there is an alarm, it is taken back as soon as the file leaves room. Until then history is dropped, and what is left is
// counted: if it would leave room in a file of its own, that is what a defragmentation makes, else objects fill the etcd.
// Then, and after a defragmentation or a failure, nothing is tried for a while.
type space struct {
	server *etcdserver.EtcdServer
	client *clientv3.Client
	quota  int64
	// room is what must be free for writes to be taken again: the largest of them.
	room   int64
	clock  clock.Clock
	logger *slog.Logger
	// diskFree returns how many bytes can still be written below a directory.
	diskFree func(dir string) (int64, error)

	full atomic.Pointer[FullError] // nil: it takes writes
	// objects is what was found to be left of a full etcd without its history, nil for nothing yet; rest until when nothing
	// is tried. Only start and then run use them.
	objects *objects
	rest    time.Time

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// objects would fill a file of so many bytes at a revision, and of these so many are gone at a later one.
type objects struct {
	bytes, gone int64
	revision    int64     // up to which gone is counted
	again       time.Time // when they are looked at again though few are gone
}

// start takes back the alarm where there is room, as when the quota is a larger one than it was. Whenever there is none, it
// is made behind it, until close: the etcd serves reads and deletions meanwhile.
func (s *space) start(ctx context.Context) {
	s.clean(ctx)
	if _, err := s.check(ctx); err != nil {
		s.failed(ctx, err)
	}
	background, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() { s.run(background) })
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

func (s *space) run(ctx context.Context) {
	for {
		timer := s.clock.NewTimer(s.look(ctx))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// look makes room if the etcd is full, and returns when to look again.
func (s *space) look(ctx context.Context) time.Duration {
	full, err := s.check(ctx)
	if full && err == nil {
		if err = s.makeRoom(ctx); err == nil {
			full, err = s.check(ctx)
		}
	}
	if err != nil {
		s.failed(ctx, err)
	}
	if full {
		return fullInterval
	}
	return spaceInterval
}

// check notes whether the etcd is full, after it has taken back the alarm if there is room.
func (s *space) check(ctx context.Context) (full bool, err error) {
	alarm := s.alarm()
	size := s.backend().Size()
	if alarm != nil && !s.leavesRoom(size) {
		if s.full.Load() == nil {
			s.set(FullError{Freeing: true})
			s.logger.WarnContext(ctx, "embedded etcd is full: its history is dropped, and it is defragmented if that helps",
				"bytes", size, "quotaBytes", s.quota)
		}
		return true, nil
	}
	if alarm != nil {
		if _, err := s.client.Maintenance.AlarmDisarm(ctx, alarm); err != nil {
			return true, fmt.Errorf("take back the alarm: %w", err)
		}
		s.logger.InfoContext(ctx, "embedded etcd takes writes again", "bytes", size, "quotaBytes", s.quota)
	}
	s.full.Store(nil)
	s.objects = nil
	return false, nil
}

// alarm returns that of a full etcd, nil for none.
func (s *space) alarm() *clientv3.AlarmMember {
	for _, a := range s.server.Alarms() {
		if a.GetAlarm() == etcdserverpb.AlarmType_NOSPACE {
			return (*clientv3.AlarmMember)(a)
		}
	}
	return nil
}

// leavesRoom reports whether a file of so many bytes leaves room for a write.
func (s *space) leavesRoom(bytes int64) bool { return bytes+s.room <= s.quota }

// makeRoom drops the history of a full etcd and, where that makes room, defragments it.
func (s *space) makeRoom(ctx context.Context) error {
	resting, failed := s.clock.Now().Before(s.rest), s.full.Load().Err != nil
	if resting && failed {
		return nil
	}
	due, err := s.due(ctx)
	switch {
	case err != nil:
		return err
	case !due && failed:
		s.fullOfObjects(ctx) // what failed was to find that out
		return nil
	case !due:
		return nil
	case resting:
		s.set(FullError{Freeing: true, NotBefore: s.rest})
		return nil
	case s.full.Load().Freeing:
		s.set(FullError{Freeing: true}) // it was put off
	}
	return s.drop(ctx)
}

// drop drops the history and, where that makes room, defragments.
func (s *space) drop(ctx context.Context) error {
	began := s.clock.Now()
	revision, err := s.compact(ctx)
	if err != nil {
		return err
	}
	bytes, err := s.packed(ctx, revision)
	if err != nil {
		return err
	}
	s.objects = &objects{bytes: bytes, revision: revision}
	if s.leavesRoom(bytes) {
		if err := s.fits(bytes); err != nil {
			return err
		}
		if err := s.defragment(ctx, bytes); err != nil {
			return err
		}
		if s.objects.bytes = s.backend().Size(); s.leavesRoom(s.objects.bytes) {
			return nil
		}
	}
	now := s.clock.Now()
	s.objects.again = now.Add(max(restShare*now.Sub(began), objectsRest))
	s.fullOfObjects(ctx)
	return nil
}

// due reports whether dropping history may help: not where objects were found to fill the etcd, until so many are gone that
// there should be room, or some, and that was long ago. Its error may be that the disk still has no room for what is left.
func (s *space) due(ctx context.Context) (bool, error) {
	o := s.objects
	if o == nil {
		return true, nil
	}
	err := s.countGone(ctx, o)
	if errors.Is(err, rpctypes.ErrCompacted) {
		return true, nil // others have dropped the history
	}
	if err != nil {
		return false, err
	}
	if left := o.bytes - o.gone; s.leavesRoom(left) {
		return true, s.fits(left)
	}
	return o.gone > 0 && !s.clock.Now().Before(o.again), nil
}

// countGone counts what was deleted since it was last counted.
func (s *space) countGone(ctx context.Context, o *objects) error {
	current := s.server.KV().Rev()
	if current == o.revision {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range s.client.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(o.revision+1)) {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("count what is gone: %w", err)
		}
		var gone int64
		for _, e := range resp.Events {
			if e.Type == clientv3.EventTypeDelete {
				was, err := s.client.KV.Get(ctx, string(e.Kv.Key), clientv3.WithRev(e.Kv.ModRevision-1))
				if err != nil {
					return fmt.Errorf("count what is gone: %w", err)
				}
				gone += int64(len(e.Kv.Key) + len(first(was.Kvs).GetValue()))
			}
		}
		o.gone += gone
		if n := len(resp.Events); n > 0 {
			o.revision = resp.Events[n-1].Kv.ModRevision // a response has all events of a revision
		}
		if o.revision >= current {
			return nil
		}
	}
	return ctx.Err()
}

// fullOfObjects notes that objects fill the etcd; in the log once.
func (s *space) fullOfObjects(ctx context.Context) {
	was := s.full.Load()
	s.set(FullError{})
	if was.Freeing || was.Err != nil {
		s.logger.ErrorContext(ctx, "embedded etcd takes no writes", "error", s.full.Load())
	}
}

// failed notes why no room could be made. That stays until there is room, or something else is found out.
func (s *space) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // it is closed
	}
	if rest := s.clock.Now().Add(failureRest); rest.After(s.rest) {
		s.rest = rest
	}
	s.set(FullError{Err: err, NotBefore: s.rest})
	s.logger.ErrorContext(ctx, "embedded etcd is full, and making room failed", "error", err, "retryAfter", s.rest)
}

// fits returns why a copy of so many bytes cannot be made.
func (s *space) fits(bytes int64) error {
	dir := s.server.Cfg.SnapDir()
	if free, err := s.diskFree(dir); err == nil && free < bytes+diskMargin {
		return fmt.Errorf("the disk has no room for a defragmentation, which copies what is live: %d bytes are free in %s, %d are needed",
			free, dir, bytes+diskMargin)
	}
	return nil
}

// defragment copies what is live, of about so many bytes, into a file of its own. Nothing is answered meanwhile.
func (s *space) defragment(ctx context.Context, bytes int64) error {
	before := s.backend().Size()
	s.set(FullError{Freeing: true, Blocked: true})
	began := s.clock.Now()
	s.logger.WarnContext(ctx, "embedded etcd is being defragmented, and answers nothing meanwhile", "bytes", before)
	err := s.server.Defragment()
	took := s.clock.Since(began)
	s.rest = s.clock.Now().Add(max(restShare*took, fullInterval))
	s.set(FullError{Freeing: true})
	if err != nil {
		return fmt.Errorf("defragment: %w", err)
	}
	s.logger.InfoContext(ctx, "embedded etcd was defragmented", "bytesBefore", before, "bytes", s.backend().Size(), "expected", bytes, "took", took)
	return nil
}

// compact drops all history, without the write by which servers agree on who does: it would be refused. It returns up to which
// revision.
func (s *space) compact(ctx context.Context) (int64, error) {
	rev := s.server.KV().Rev()
	if _, err := s.client.KV.Compact(ctx, rev); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return 0, fmt.Errorf("compact revision %d: %w", rev, err)
	}
	// A compaction that is asked to be waited for would not end with ctx.
	poll := time.NewTicker(compactionPoll)
	defer poll.Stop()
	for s.finished() < rev {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return 0, fmt.Errorf("compact revision %d: %w", rev, ctx.Err())
		}
	}
	return rev, nil
}

// finished returns the revision up to which the history is gone.
func (s *space) finished() int64 {
	tx := s.backend().ReadTx()
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
	return &FullError{Freeing: true, Bytes: s.backend().Size(), QuotaBytes: s.quota}
}

func (s *space) set(e FullError) {
	e.Bytes, e.QuotaBytes = s.backend().Size(), s.quota
	s.full.Store(&e)
}

func (s *space) backend() backend.Backend { return s.server.Backend() }
