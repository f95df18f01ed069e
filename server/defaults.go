package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// firstDefaultsRetry and lastDefaultsRetry bound the pause after default objects could not be made again; it doubles each time.
const (
	firstDefaultsRetry = 100 * time.Millisecond
	lastDefaultsRetry  = 30 * time.Second
)

// defaultsPause is how long default objects that are lost are left alone: every server is to find first that its etcd went back. So
// many writes could bring an etcd that was emptied past all that another server has seen, which would not find it then.
const defaultsPause = time.Second

// defaults has default objects made again that were there and are not, or not as they were, though nobody was seen to delete
// them: the etcd was restored from an earlier state, or emptied. One that was deleted stays away until a restart.
type defaults struct {
	logger *slog.Logger
	// restore makes those that are missing, and brings the others up to what they should have.
	restore   func(ctx context.Context, objects defaultKeys) error
	followers map[schema.GroupResource]*rest.Follower
	// found has something when there is something in lost.
	found chan struct{}

	mu   sync.Mutex
	lost defaultKeys // guarded by mu
}

// defaultKey names a default object.
type defaultKey struct {
	schema.GroupResource
	namespace, name string
}

type defaultKeys map[defaultKey]bool

// newDefaults returns the keeper of objects. stored returns what stores a resource.
func newDefaults(objects []defaultKey, stored func(group, resource string) any, logger *slog.Logger,
	restore func(ctx context.Context, objects defaultKeys) error) (*defaults, error) {
	d := &defaults{logger: logger, restore: restore, found: make(chan struct{}, 1), lost: defaultKeys{},
		followers: map[schema.GroupResource]*rest.Follower{}}
	byResource := map[schema.GroupResource]defaultKeys{}
	for _, key := range objects {
		if byResource[key.GroupResource] == nil {
			byResource[key.GroupResource] = defaultKeys{}
		}
		byResource[key.GroupResource][key] = true
	}
	for gr, keys := range byResource {
		watcher, ok := stored(gr.Group, gr.Resource).(rest.Watcher)
		if !ok {
			return nil, fmt.Errorf("defaults: resource %s is not served", gr)
		}
		handler := &defaultsHandler{defaults: d, resource: gr, keys: keys, there: map[defaultKey]defaultState{}}
		for key := range keys {
			handler.there[key] = defaultState{}
		}
		d.followers[gr] = rest.NewFollower(gr.String(), watcher, handler, logger)
	}
	return d, nil
}

// run keeps the objects until ctx is done.
func (d *defaults) run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	for _, f := range d.followers {
		following.Go(func() { f.Run(ctx) })
	}
	for {
		select {
		case <-d.found:
		case <-ctx.Done():
			return
		}
		if !pause(ctx, defaultsPause) {
			return
		}
		d.makeAgain(ctx)
	}
}

// waitFollowing waits until all is seen that becomes of the objects from then on. Of a resource of which something cannot be read
// that is not before it is mended: no start waits for it.
func (d *defaults) waitFollowing(ctx context.Context) error {
	for gr, f := range d.followers {
		err := f.WaitKnown(ctx)
		if unreadable := (*rest.UnreadableError)(nil); errors.As(err, &unreadable) {
			d.logger.WarnContext(ctx, "default objects that are lost are not made again until others of their resource can be read", "resource", gr, "error", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// pause reports false when ctx is done before the time is over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// makeAgain makes what is lost, as often as it takes.
func (d *defaults) makeAgain(ctx context.Context) {
	for retry := firstDefaultsRetry; ; retry = min(2*retry, lastDefaultsRetry) {
		d.mu.Lock()
		lost := d.lost
		d.lost = defaultKeys{} // those that are lost again meanwhile
		d.mu.Unlock()
		if len(lost) == 0 {
			return
		}
		err := d.restore(ctx, lost)
		if err == nil {
			continue
		}
		d.mu.Lock()
		maps.Copy(d.lost, lost)
		d.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		d.logger.WarnContext(ctx, "default objects cannot be made again; it is tried again", "error", err, "retryIn", retry)
		if !pause(ctx, retry) {
			return
		}
	}
}

// defaultsHandler follows one resource.
type defaultsHandler struct {
	*defaults
	resource schema.GroupResource
	keys     defaultKeys
	// there are those that are stored: before the first state, what a start has seen to.
	there map[defaultKey]defaultState
}

// defaultState is how an object was seen last.
type defaultState struct {
	uid      types.UID
	revision string
}

var _ rest.FollowHandler = (*defaultsHandler)(nil)

func (h *defaultsHandler) key(obj *document.Document) defaultKey {
	m := rest.MetaOf(obj)
	return defaultKey{h.resource, m.Namespace(), m.Name()}
}

func stateOfDefault(obj *document.Document) defaultState {
	m := rest.MetaOf(obj)
	return defaultState{m.UID(), m.ResourceVersion()}
}

// Replace implements rest.FollowHandler. What was there is in every later state, unless it was deleted while the stream was
// broken: that counts as lost too.
func (h *defaultsHandler) Replace(objects []*document.Document) {
	before := h.there
	h.there = map[defaultKey]defaultState{}
	for _, obj := range objects {
		if key := h.key(obj); h.keys[key] {
			h.there[key] = stateOfDefault(obj)
		}
	}
	var lost []defaultKey
	for key, state := range before {
		now, ok := h.there[key]
		if !ok || now != state && state != (defaultState{}) {
			lost = append(lost, key)
		}
	}
	if len(lost) == 0 {
		return
	}
	h.mu.Lock()
	for _, key := range lost {
		h.lost[key] = true
	}
	h.mu.Unlock()
	h.logger.Info("default objects are not as they were; those that are missing are made again", "resource", h.resource.String(), "objects", len(lost))
	select {
	case h.found <- struct{}{}:
	default:
	}
}

// Change implements rest.FollowHandler.
func (h *defaultsHandler) Change(e rest.Event) {
	if e.Object == nil {
		return
	}
	key := h.key(e.Object)
	switch {
	case !h.keys[key]:
	case e.Type == "DELETED":
		delete(h.there, key)
	default:
		h.there[key] = stateOfDefault(e.Object)
	}
}

// followDefaults has owned keep the default roles, bindings and strategies until ctx is done, and returns when it is seen what becomes
// of them: who finds the server ready may delete one.
func (s *Server) followDefaults(ctx context.Context, owned *sync.WaitGroup) error {
	if s.defaults == nil {
		d, err := s.newDefaults()
		if err != nil {
			s.logger.ErrorContext(ctx, "default objects are not made again when they are lost", "error", err)
			return nil
		}
		s.defaults = d
		owned.Go(func() { d.run(ctx) })
	}
	return s.defaults.waitFollowing(ctx)
}

func (s *Server) newDefaults() (*defaults, error) {
	keys, err := s.access.defaults()
	if err != nil {
		return nil, err
	}
	strategies, err := defaultStrategies()
	if err != nil {
		return nil, err
	}
	for _, obj := range strategies {
		keys = append(keys, strategyKey(obj))
	}
	return newDefaults(keys, s.stored, s.logger, func(ctx context.Context, lost defaultKeys) error {
		strategies, err := defaultStrategies()
		if err != nil {
			return err
		}
		strategies = slices.DeleteFunc(strategies, func(obj *document.Document) bool { return !lost[strategyKey(obj)] })
		return errors.Join(s.access.restore(ctx, lost), s.createStrategies(ctx, strategies))
	})
}

func strategyKey(obj *document.Document) defaultKey {
	return defaultKey{GroupResource: strategyResource, name: rest.MetaOf(obj).Name()}
}
