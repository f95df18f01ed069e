//go:build unix

package torture_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// effect is what a fault has done, as seen where it was done: a run in which nothing failed shows nothing.
type effect string

const (
	kills          effect = "processes ended by SIGKILL"
	pauses         effect = "processes stopped by SIGSTOP"
	delayed        effect = "pieces delayed by a proxy"
	held           effect = "pieces held by a proxy"
	refusals       effect = "connections refused by a proxy"
	resets         effect = "connections reset by a proxy"
	compactions    effect = "compactions that etcd has done"
	expiredPages   effect = "pages that were too old"
	fullStorage    effect = "times that there was no space"
	fullAnswers    effect = "writes that were told of it with 429"
	roomMade       effect = "times that a server made room"
	stalledWatches effect = "watches that were open and not read"
	stalledInitial effect = "watches that were not read within their initial events"
	stalledPast    effect = "watches that were not read within what was before the cache"
	rotations      effect = "keys that rows were written with after another"
)

// networkEffects are those of a proxy.
var networkEffects = []effect{delayed, held, refusals, resets}

const (
	// slowFault is how long a fault and the pause before it take at most, most of the time.
	slowFault = 20 * time.Second
	// compactionEach is that of compactAlways, which begins one every 100 ms.
	compactionEach = 500 * time.Millisecond
	// leastWrites are acknowledged, leastLists are answered in each second of a run, on a slow machine and while all
	// fails. Of writers and listers that do not work there are one and none.
	leastWrites, leastLists = 5, 1
	// eachRead and eachBatch are the seconds in which there is one of each kind of readings, and of the revisions that
	// delete several objects.
	eachRead, eachBatch = 5, 5
)

// note counts an effect.
func (r *run) note(e effect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noted[e]++
}

// effects returns what was seen of the faults so far.
func (r *run) effects() map[effect]int {
	out := map[effect]int{}
	r.mu.Lock()
	maps.Copy(out, r.noted)
	r.mu.Unlock()
	r.lists.mu.Lock()
	out[expiredPages] += r.lists.expired
	r.lists.mu.Unlock()
	take := func(p *process, proxies ...*proxy) {
		p.mu.Lock()
		out[kills] += p.killed
		out[pauses] += p.paused
		p.mu.Unlock()
		for _, x := range proxies {
			if x != nil {
				out[delayed] += int(x.did.delayed.Load())
				out[held] += int(x.did.held.Load())
				out[refusals] += int(x.did.refused.Load())
				out[resets] += int(x.did.reset.Load())
			}
		}
	}
	for _, n := range r.nodes {
		take(n.process, n.client, n.peers)
	}
	for _, s := range r.servers {
		take(s.process, s.proxy)
		out[roomMade] += strings.Count(s.tail(1<<20), "embedded etcd takes writes again")
	}
	return out
}

// shortfalls tells what there was too little of for a run to show anything.
func (p *plan) shortfalls(f figures, seen map[effect]int, duration time.Duration) (short []string) {
	seconds := int(duration / time.Second)
	for _, c := range []struct {
		what     string
		n, least int
	}{
		{"acknowledged writes", f.acknowledged, max(2, leastWrites*seconds)},
		// Several watchers see all.
		{"events", f.events, max(2, f.acknowledged)},
		{"lists", f.lists, max(1, leastLists*seconds)},
		{"keys with a history", f.keys, 2},
	} {
		if c.n < c.least {
			short = append(short, fmt.Sprintf("%d %s, want %d at least", c.n, c.what, c.least))
		}
	}
	for _, kind := range readKinds {
		if n, least := f.answered[kind], max(1, seconds/eachRead); n < least {
			short = append(short, fmt.Sprintf("%d %s, want %d at least", n, kind, least))
		}
	}
	if p.leases {
		if least := max(1, seconds/eachBatch); f.shared < least {
			short = append(short, fmt.Sprintf("%d revisions that deleted several objects, want %d at least", f.shared, least))
		}
		// Several watchers see all.
		if f.whole < f.shared {
			short = append(short, fmt.Sprintf("%d times a watcher saw all of such a revision, want %d at least", f.whole, f.shared))
		}
	}
	if p.faults == nil {
		return short
	}
	each := p.each
	if each == 0 {
		each = slowFault
	}
	if least := max(1, int(duration/each)); f.faults < least {
		short = append(short, fmt.Sprintf("%d faults, want %d at least", f.faults, least))
	}
	for _, e := range p.shows {
		if seen[e] == 0 {
			short = append(short, "no "+string(e))
		}
	}
	if len(p.showsAny) > 0 && !slices.ContainsFunc(p.showsAny, func(e effect) bool { return seen[e] > 0 }) {
		short = append(short, fmt.Sprintf("none of %q", p.showsAny))
	}
	return short
}

// TestPlansShow: no scenario with faults is content with none.
func TestPlansShow(t *testing.T) {
	for _, p := range plans() {
		if (p.faults != nil) != (len(p.shows)+len(p.showsAny) > 0) {
			t.Errorf("%s: faults without an effect that must be seen, or effects without faults", p.name)
		}
	}
}

func TestShortfalls(t *testing.T) {
	good := figures{acknowledged: 500, events: 3000, lists: 80, keys: 30, faults: 2, shared: 2, whole: 6, answered: map[string]int{}}
	for _, kind := range readKinds {
		good.answered[kind] = 20
	}
	less := func(kind string) func(*figures) {
		return func(f *figures) {
			f.answered = maps.Clone(f.answered)
			delete(f.answered, kind)
		}
	}
	tests := []struct {
		name     string
		plan     plan
		change   func(*figures)
		seen     map[effect]int
		duration time.Duration
		want     []string // in each shortfall
	}{
		{name: "calm"},
		{name: "all is there", plan: plan{faults: killServers, shows: []effect{kills}}, seen: map[effect]int{kills: 1}},
		{name: "one of several", plan: plan{faults: storm, showsAny: networkEffects}, seen: map[effect]int{refusals: 1}},
		{name: "only the last object is written", change: func(f *figures) { f.acknowledged, f.events = 1, 9 }, want: []string{"1 acknowledged writes, want 15"}},
		{name: "watchers see nothing", change: func(f *figures) { f.events = 0 }, want: []string{"0 events, want 500"}},
		{name: "nobody lists", change: func(f *figures) { f.lists = 0 }, want: []string{"0 lists, want 3"}},
		{name: "no list of any age succeeds", change: less(listsAnyAge), want: []string{"0 lists of any age, want 1"}},
		{name: "no list not older succeeds", change: less(listsAtLeast), want: []string{"0 lists not older than a revision, want 1"}},
		{name: "no list at a revision succeeds", change: less(listsExactly), want: []string{"0 lists at a revision, want 1"}},
		{name: "no page at a revision succeeds", change: less(pagesExactly), want: []string{"0 pages at a revision, want 1"}},
		{name: "no get of any age succeeds", change: less(getsAnyAge), want: []string{"0 gets of any age, want 1"}},
		{name: "no get not older succeeds", change: less(getsAtLeast), want: []string{"0 gets not older than a revision, want 1"}},
		{name: "leases", plan: plan{leases: true}},
		{name: "no lease took several", plan: plan{leases: true}, change: func(f *figures) { f.shared, f.whole = 0, 0 }, want: []string{"0 revisions that deleted several"}},
		{name: "nobody saw all that a lease took", plan: plan{leases: true}, change: func(f *figures) { f.whole = 1 }, want: []string{"1 times a watcher saw all"}},
		{name: "no histories", change: func(f *figures) { f.keys = 0 }, want: []string{"0 keys"}},
		{name: "no fault", plan: plan{faults: killServers, shows: []effect{kills}}, change: func(f *figures) { f.faults = 0 },
			want: []string{"0 faults, want 1", "no " + string(kills)}},
		{name: "fewer than a long run has", plan: plan{faults: killServers, shows: []effect{kills}}, seen: map[effect]int{kills: 2}, duration: time.Minute,
			want: []string{"2 faults, want 3"}},
		{name: "fewer than there are often", plan: plan{faults: compactAlways, each: compactionEach, shows: []effect{compactions}}, seen: map[effect]int{compactions: 2},
			want: []string{"2 faults, want 6"}},
		{name: "a fault without an effect", plan: plan{faults: breakEtcd, shows: []effect{pauses, kills}}, seen: map[effect]int{kills: 1}, want: []string{"no " + string(pauses)}},
		{name: "none of several", plan: plan{faults: storm, showsAny: networkEffects}, seen: map[effect]int{kills: 1}, want: []string{"none of"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := good
			if tc.change != nil {
				tc.change(&f)
			}
			if tc.duration == 0 {
				tc.duration = brief
			}
			got := tc.plan.shortfalls(f, tc.seen, tc.duration)
			if len(got) != len(tc.want) || !slices.EqualFunc(got, tc.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestProcessEffects: what a process is said to have suffered is what it has.
func TestProcessEffects(t *testing.T) {
	p := newProcess(t, "sleep", "sleep", t.TempDir(), "60")
	p.stop() // it does not run
	p.kill()
	if p.killed != 0 || p.paused != 0 {
		t.Errorf("killed %d times and paused %d times before it ran", p.killed, p.paused)
	}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.cont()
	p.kill()
	if p.killed != 1 || p.paused != 1 {
		t.Errorf("killed %d times and paused %d times, want once each", p.killed, p.paused)
	}
	brief := newProcess(t, "true", "true", t.TempDir())
	if err := brief.start(); err != nil {
		t.Fatal(err)
	}
	brief.wait(t.Context())
	if brief.killed != 0 {
		t.Error("a process that has ended by itself counts as killed")
	}
}
