package encryption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// generation is what one content of the file says. Only the seeds of its plugins change.
type generation struct {
	hash    string
	chains  map[schema.GroupResource]chain
	plugins []*plugin
	// users counts those that need its connections: one while it is in force, one for each call under way. At 0
	// they are closed, and it does not rise again.
	users      atomic.Int64
	disconnect context.CancelFunc
}

// newGeneration opens what a file says. The caller closes it by release.
func newGeneration(content []byte, intervals Intervals, logger *slog.Logger) (*generation, error) {
	config, err := parse(content)
	if err != nil {
		return nil, err
	}
	// The connections live as long as the generation, whoever opened it.
	connected, disconnect := context.WithCancel(context.Background())
	g := &generation{hash: hashOf(content), disconnect: disconnect}
	g.users.Store(1)
	g.chains, err = chainsOf(config, func(c *apiserver.KMSConfiguration) (provider, error) {
		p, err := openPlugin(connected, c, intervals, logger)
		if err != nil {
			return provider{}, err
		}
		g.plugins = append(g.plugins, p)
		return p.provider(), nil
	})
	if err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// acquire reports whether the connections can be used; then release must follow.
func (g *generation) acquire() bool {
	if len(g.plugins) == 0 {
		return true // nothing to close
	}
	for {
		n := g.users.Load()
		if n <= 0 {
			return false
		}
		if g.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// done ends what acquire began.
func (g *generation) done() {
	if len(g.plugins) > 0 {
		g.release()
	}
}

// release gives up a use, or being in force.
func (g *generation) release() {
	if g.users.Add(-1) == 0 {
		g.disconnect()
	}
}

// chain returns the providers of a resource; nil: it is not encrypted.
func (g *generation) chain(gr schema.GroupResource) chain {
	for _, name := range []schema.GroupResource{gr, {Group: gr.Group, Resource: "*"}, everything()} {
		if c := g.chains[name]; c != nil {
			return c
		}
	}
	return nil
}

// check asks all plugins and returns what is wrong with them.
func (g *generation) check(ctx context.Context) error {
	var errs []error
	for _, p := range g.plugins {
		errs = append(errs, p.check(ctx))
	}
	return errors.Join(errs...)
}

const (
	// shortestAdmission is how long plugins of a new configuration have to answer, at least.
	shortestAdmission = 10 * time.Second
	admissionPause    = 100 * time.Millisecond
)

// admit waits until all plugins are well.
func (g *generation) admit(ctx context.Context) error {
	if len(g.plugins) == 0 {
		return nil
	}
	bound := shortestAdmission
	var timeouts time.Duration
	for _, p := range g.plugins {
		timeouts += 2 * p.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, max(bound, timeouts))
	defer cancel()
	for {
		var errs []error
		for _, p := range g.plugins {
			errs = append(errs, p.ask(ctx))
		}
		err := errors.Join(errs...)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(admissionPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("plugins of the new configuration are unwell: %w", err)
		}
	}
}
