package cacher

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// topicKind is what the watchers of a topic have in common.
type topicKind uint8

const (
	// prefixTopic: keys that start with scope, which is "" or ends with "/".
	prefixTopic topicKind = iota
	// keyTopic: the key scope.
	keyTopic
	// fieldTopic and labelTopic: keys that start with scope, of objects whose field or
	// label name has value, before or after the change.
	fieldTopic
	labelTopic
)

// topicKey names a topic. Keys are those after the cache's prefix.
type topicKey struct {
	kind               topicKind
	scope, name, value string
}

// topic wakes the watchers that an event may concern.
type topic struct {
	signal
	key      topicKey
	watchers int // guarded by hub.mu
	// latest is the seq of the last event that may concern the topic, as far as events have been announced, and before
	// that of the last but one or later. before is stored first.
	before, latest atomic.Uint64

	// takers are the watchers that take events. guarded by hub.mu
	takers takers
	// many says that the takers are given events by delivery, and wait for the signal only where they did before. Once
	// it is so it stays.
	many atomic.Bool
	// isDue says that delivery is to visit the takers, first for which event. guarded by delivery.mu
	isDue bool
	first uint64
}

// concerned notes that the event seq may concern the topic.
func (t *topic) concerned(seq uint64) {
	t.before.Store(t.latest.Load())
	t.latest.Store(seq)
}

// skip returns where a watcher goes on that has looked at the events up to next: behind those that are not its topic's.
func (t *topic) skip(next, announced uint64) uint64 {
	latest := t.latest.Load()
	switch before := t.before.Load(); {
	case latest < next:
		return max(next, announced)
	case before < next:
		return latest // between the two is none; a later latest would have a later before
	}
	return next
}

// hub finds the topics of an event, so that its cost grows with the watchers that it
// concerns and not with those that exist.
type hub struct {
	mu     sync.RWMutex
	topics map[topicKey]*topic // guarded by mu
	// fields and labels are the names that there are topics for.
	fields, labels names // guarded by mu

	// announced is the seq before which all events have been announced.
	announced atomic.Uint64

	delivery delivery
}

// join returns the topic of a watcher; leave must follow.
func (h *hub) join(key topicKey) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.namesLocked(key.kind); n != nil && len(*n) >= maxNames && !n.has(key.name) {
		key = topicKey{kind: prefixTopic, scope: key.scope} // its events are among those
	}
	t := h.topics[key]
	if t == nil {
		if h.topics == nil {
			h.topics = map[topicKey]*topic{}
		}
		t = &topic{key: key}
		last := max(h.announced.Load(), 1) - 1 // nobody knows which of those up to here concerned it
		t.before.Store(last)
		t.latest.Store(last)
		h.topics[key] = t
		h.namesLocked(key.kind).add(key.name)
	}
	t.watchers++
	return t
}

// leave ends what join began for w.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.topic
	if w.place > 0 {
		t.takers.remove(w)
	}
	if t.watchers--; t.watchers == 0 {
		delete(h.topics, t.key)
		t.before.Store(math.MaxUint64) // nothing is announced to it any more, so nobody may skip
		t.latest.Store(math.MaxUint64)
		h.namesLocked(t.key.kind).remove(t.key.name)
	}
}

// offer makes w one of the takers of its topic.
func (h *hub) offer(w *watcher, group uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := w.topic
	t.takers.add(w, group)
	if t.takers.count >= manyTakers {
		t.many.Store(true)
	}
}

// takers appends the takers of a topic, those of a group one after the other.
func (h *hub) takers(t *topic, takers []*watcher) []*watcher {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return t.takers.append(takers)
}

// namesLocked returns the names that topics of a kind count in, nil where they have none.
func (h *hub) namesLocked(kind topicKind) *names {
	switch kind {
	case fieldTopic:
		return &h.fields
	case labelTopic:
		return &h.labels
	}
	return nil
}

// fireAll wakes all watchers, without an event.
func (h *hub) fireAll() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, t := range h.topics {
		t.fire(0)
		for _, w := range t.takers.append(nil) {
			w.rouse()
		}
	}
}

// publish wakes the watchers of events that the ring shows already. Only the
// goroutine that appends to the ring may call it.
func (h *hub) publish(events []*event) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, e := range events {
		switch {
		case len(h.topics) == 0:
		case e.kind == cut:
			for _, t := range h.topics {
				h.announce(t, e.seq)
			}
		default:
			h.publishLocked(e)
		}
		h.announced.Store(e.seq + 1)
	}
}

// forget makes the hub one of a ring that begins anew. There must be no topics.
func (h *hub) forget() { h.announced.Store(0) }

func (h *hub) publishLocked(e *event) {
	suffix := e.cur.suffix()
	h.fireLocked(topicKey{kind: keyTopic, scope: suffix}, e.seq)
	for end := 0; ; {
		scope := suffix[:end]
		h.fireLocked(topicKey{kind: prefixTopic, scope: scope}, e.seq)
		for i := range h.fields {
			name := h.fields[i].name
			h.fireValuesLocked(topicKey{kind: fieldTopic, scope: scope, name: name}, e, (*element).field)
		}
		for i := range h.labels {
			name := h.labels[i].name
			h.fireValuesLocked(topicKey{kind: labelTopic, scope: scope, name: name}, e, (*element).label)
		}
		next := strings.IndexByte(suffix[end:], '/')
		if next < 0 {
			return
		}
		end += next + 1
	}
}

// fireValuesLocked fires the topics of the value that an object had and of the one that it has.
func (h *hub) fireValuesLocked(key topicKey, e *event, value func(*element, string) (string, bool)) {
	var had bool
	if e.prev != nil {
		if key.value, had = value(e.prev, key.name); had {
			h.fireLocked(key, e.seq)
		}
	}
	if e.kind == removal {
		return
	}
	if now, has := value(e.cur, key.name); has && !(had && now == key.value) {
		key.value = now
		h.fireLocked(key, e.seq)
	}
}

func (h *hub) fireLocked(key topicKey, seq uint64) {
	if t := h.topics[key]; t != nil {
		h.announce(t, seq)
	}
}

// announce tells the watchers of a topic that there is an event.
func (h *hub) announce(t *topic, seq uint64) {
	t.concerned(seq)
	t.fire(seq)
	if t.many.Load() {
		h.delivery.add(t, seq)
	}
}

// maxNames bounds the names of labels, and of fields, by which topics are told apart: each event looks for all of them.
// Who watches by another name is woken by all events in scope, and its filter decides.
const maxNames = 64

// names counts names. There are no more than maxNames.
type names []struct {
	name  string
	count int
}

func (n *names) has(name string) bool {
	for i := range *n {
		if (*n)[i].name == name {
			return true
		}
	}
	return false
}

func (n *names) add(name string) {
	if n == nil {
		return
	}
	for i := range *n {
		if (*n)[i].name == name {
			(*n)[i].count++
			return
		}
	}
	*n = append(*n, struct {
		name  string
		count int
	}{name, 1})
}

func (n *names) remove(name string) {
	if n == nil {
		return
	}
	for i := range *n {
		if (*n)[i].name == name {
			if (*n)[i].count--; (*n)[i].count == 0 {
				*n = slices.Delete(*n, i, i+1)
			}
			return
		}
	}
}
