package torture_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// reader is one client that lists and gets what may be old, or must be as old as it says.
type reader struct {
	lister
	// told is the highest revision that each server has answered a list of any age with.
	told sightings
	// turn says which kind of reads is next, so that each has its share also where there are few.
	turn int
}

// sightings are revisions by server.
type sightings map[string]int64

// next returns the highest revision so far, and takes note of one more.
func (s sightings) next(server string, rv int64) (before int64) {
	before = s[server]
	s[server] = max(before, rv)
	return before
}

// work reads until ctx is done.
func (r *reader) work(ctx context.Context) {
	defer r.client.close()
	for ctx.Err() == nil {
		if err := r.read(ctx); err != nil {
			r.client.move()
		}
		pause(ctx, r.pause)
	}
}

// aheadOf is by how much a revision that is asked for may be of the future: one that others write soon.
const aheadOf = 3

// read makes one request, or those of a list in pages.
func (r *reader) read(ctx context.Context) error {
	s := selector{}
	switch r.random.IntN(6) {
	case 0, 1:
		s.side = "left"
	case 2:
		s.name = steadyKey
	}
	r.turn++
	switch r.turn % len(readKinds) {
	case 0:
		return r.list(ctx, s, anyAge, 0)
	case 1:
		return r.list(ctx, s, exactly, r.revision(0))
	case 2:
		return r.list(ctx, s, atLeast, r.revision(aheadOf))
	case 3:
		return r.pages(ctx, s, 2+r.random.IntN(15), r.revision(0))
	case 4:
		return r.get(ctx, 0)
	default:
		return r.get(ctx, r.revision(aheadOf))
	}
}

// revision chooses one since the run began, mostly one of the latest. Often it is up to ahead above all that are known,
// so that the server must wait for it.
func (r *reader) revision(ahead int64) int64 {
	first, last := r.run.recorder.from, r.run.operations.floor.Load()
	last = max(first, last)
	if ahead > 0 && r.random.IntN(3) == 0 {
		return last + 1 + r.random.Int64N(ahead)
	}
	switch r.random.IntN(8) {
	case 0, 1:
		return first + r.random.Int64N(last-first+1)
	case 2, 3:
		return last
	default:
		return max(first, last-r.random.Int64N(32))
	}
}

// query of a read of an age. What the server takes N alone for is the same as NotOlderThan.
func (r *reader) query(a age, rv int64) url.Values {
	query := url.Values{"resourceVersion": {strconv.FormatInt(rv, 10)}}
	switch {
	case a == exactly:
		query.Set("resourceVersionMatch", "Exact")
	case r.random.IntN(2) == 0:
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	return query
}

// list lists whole.
func (r *reader) list(ctx context.Context, s selector, a age, rv int64) error {
	server := r.client.server()
	p := &part{selector: s, age: a, asked: rv, remaining: -1, on: server}
	answer, err := r.run.page(ctx, r.client, s, r.query(a, rv))
	if g, ok := err.(*gone); ok {
		r.run.expired(a, rv, g)
		return nil
	}
	if err != nil {
		return err
	}
	p.take(answer)
	if answer.Metadata.Continue != "" {
		r.run.lists.addOdd("a list without a limit goes on")
	}
	switch a {
	case anyAge:
		p.before = r.told.next(server, p.rv)
		r.run.lists.count(listsAnyAge)
	case atLeast:
		p.floor = rv
		r.run.lists.count(listsAtLeast)
	default:
		r.run.lists.count(listsExactly)
	}
	r.run.lists.add(p)
	return nil
}

// expired notes a 410: only what is exactly at a revision can be too old, and only where history was compacted.
func (r *run) expired(a age, rv int64, g *gone) {
	if a != exactly {
		r.lists.addOdd("a list %s %d: 410 %s", a, rv, g.said)
		return
	}
	r.lists.addGone(rv, r.compacted.Load(), g.said)
}

// get gets an object, not older than least.
func (r *reader) get(ctx context.Context, least int64) error {
	key := steadyKey
	if r.random.IntN(2) == 0 {
		key = r.run.board.pick(r.random)
	}
	g := &reading{key: key, least: least, on: r.client.server()}
	query := url.Values{"resourceVersion": {strconv.FormatInt(least, 10)}}
	code, answer, err := r.client.ask(ctx, http.MethodGet, r.run.resource.path()+"/"+key+"?"+query.Encode(), "")
	if ctx.Err() == nil {
		r.run.answers.add(g.on, "get", code, &answer, err)
	}
	switch {
	case err != nil:
		return err
	case code == http.StatusOK:
		g.there, g.got = true, answer.object()
	case code != http.StatusNotFound:
		if code < 429 {
			r.run.lists.addOdd("get %s at %d: %d %s: %s", key, least, code, answer.Reason, answer.Message)
		}
		return fmt.Errorf("%d: %s", code, answer.Message)
	}
	if least == 0 {
		r.run.lists.count(getsAnyAge)
	} else {
		r.run.lists.count(getsAtLeast)
	}
	r.run.lists.addReading(g)
	return nil
}

// newReader returns one that begins at server i.
func (r *run) newReader(i int) *reader {
	return &reader{lister: lister{client: r.client(i), run: r, random: r.source("reader", i), pause: 30 * time.Millisecond}, told: sightings{}, turn: i * len(readKinds) / 2}
}

// pick chooses one of the keys that are written now.
func (b *board) pick(random *rand.Rand) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("k%05d-%d", b.count/opsPerKeys, random.IntN(keysAtOnce))
}
