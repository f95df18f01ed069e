package cacher

// takers are watchers that take events, by the groups that they were offered with. To join and to leave takes the same
// time however many there are.
type takers struct {
	count  int
	groups []*takerGroup
	byName map[uint64]*takerGroup
}

// takerGroup has at least one taker.
type takerGroup struct {
	name    uint64
	place   int // in takers.groups
	members []*watcher
}

func (t *takers) add(w *watcher, name uint64) {
	g := t.byName[name]
	if g == nil {
		g = &takerGroup{name: name, place: len(t.groups)}
		if t.byName == nil {
			t.byName = map[uint64]*takerGroup{}
		}
		t.byName[name] = g
		t.groups = append(t.groups, g)
	}
	g.members = append(g.members, w)
	w.group, w.place = name, len(g.members)
	t.count++
}

// remove removes a watcher that was added.
func (t *takers) remove(w *watcher) {
	g := t.byName[w.group]
	last := len(g.members) - 1
	moved := g.members[last]
	g.members[w.place-1], moved.place = moved, w.place
	g.members[last], w.place = nil, 0
	g.members = g.members[:last]
	t.count--
	if last > 0 {
		return
	}
	delete(t.byName, g.name)
	last = len(t.groups) - 1
	other := t.groups[last]
	t.groups[g.place], other.place = other, g.place
	t.groups[last] = nil
	t.groups = t.groups[:last]
}

// append appends all, those of a group one after the other.
func (t *takers) append(to []*watcher) []*watcher {
	for _, g := range t.groups {
		to = append(to, g.members...)
	}
	return to
}
