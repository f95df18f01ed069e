package loader

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi"
)

const (
	// keepInterval is how often what modules look up is used, so that its cache stays, where Config says nothing.
	keepInterval = time.Minute
	// keepTimeout is how long a module waits for the caches of what it looks up before it is put in force.
	keepTimeout = 5 * time.Second
)

// LookupKeeper keeps in memory what is looked up. Its zero value keeps nothing.
type LookupKeeper struct {
	// Keep has the cache of a resource filled, and used as far as it stops when nobody uses it; with wait it returns when
	// the cache is filled. A resource that does not exist is no error.
	Keep func(ctx context.Context, group, resource string, wait bool) error
	// Interval is how often Keep is called, which is less than after how long a cache stops. 0: a minute.
	Interval time.Duration
}

// keepLookups keeps in memory what the modules in force may look up, until ctx is done: a look-up, which happens inside the
// update of a store, must not find a cache that stopped because nobody had written for a while.
func (l *Loader) keepLookups(ctx context.Context) {
	if l.cfg.LookupKeeper.Keep == nil {
		return
	}
	ticker := l.cfg.Clock.NewTicker(l.cfg.LookupKeeper.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		case <-l.published:
		}
		for gr := range l.lookedUp() {
			l.keep(ctx, gr, false)
		}
	}
}

// keepAhead fills the caches of what a module looks up, so that they are there when it is put in force.
func (l *moduleLoad) keepAhead(ctx context.Context, loaded *loadedModule) {
	if l.cfg.LookupKeeper.Keep == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	for _, gr := range lookups(loaded.asked) {
		l.keep(ctx, gr, true)
	}
}

func (l *Loader) keep(ctx context.Context, gr schema.GroupResource, wait bool) {
	if err := l.cfg.LookupKeeper.Keep(ctx, gr.Group, gr.Resource, wait); err != nil {
		l.cfg.Logger.DebugContext(ctx, "what modules look up is not in memory yet", "resource", gr.String(), "error", err)
	}
}

// lookedUp returns the resources that modules in force look up. Of a Module that was deleted, strategies and policies may
// still call what was in force.
func (l *Loader) lookedUp() map[schema.GroupResource]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[schema.GroupResource]bool{}
	add := func(asked []string) {
		for _, gr := range lookups(asked) {
			all[gr] = true
		}
	}
	for _, s := range l.modules {
		if s.inForce != nil {
			add(s.inForce.asked)
		}
	}
	for _, s := range l.strategies {
		for _, m := range s.uses {
			add(asks(m.Guest))
		}
	}
	for _, s := range l.policies.policies {
		for _, m := range s.uses {
			add(asks(m.Guest))
		}
	}
	return all
}

// asks returns the capabilities that the manifest of a guest asks for.
func asks(guest any) []string {
	if m, ok := guest.(interface{ Manifest() abi.Manifest }); ok {
		return m.Manifest().Capabilities
	}
	return nil
}

// lookups returns the resources that capabilities are about.
func lookups(capabilities []string) []schema.GroupResource {
	var all []schema.GroupResource
	for _, c := range capabilities {
		if group, resource, ok := abi.ParseLookup(c); ok {
			all = append(all, schema.GroupResource{Group: group, Resource: resource})
		}
	}
	return all
}
