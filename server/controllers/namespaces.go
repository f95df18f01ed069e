package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

const (
	// firstRetry and lastRetry bound the pause after a failure; it doubles each time.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
	// defaultResync is how long a namespace whose content lingers is left alone without an event. It
	// is a safety net under the watches, and upstream's pace.
	defaultResync = 15 * time.Second
	// defaultSweeps is how many namespaces are emptied at a time.
	defaultSweeps = 4
)

// NamespaceReader is what the controller reads of namespaces.
type NamespaceReader interface {
	rest.Getter
	rest.Lister
	rest.Watcher
}

// NamespacesConfig says what Namespaces works on.
type NamespacesConfig struct {
	Namespaces NamespaceReader
	// Finalize and Status are the subresources of namespaces.
	Finalize, Status rest.Updater
	// Catalog returns resources among which are all that are defined when it is called: what a namespace has of one that is not
	// there would be left behind.
	Catalog func(ctx context.Context) (rest.Catalog, error)
	// System are the namespaces that Creater makes again when they are missing, as after an etcd was restored or emptied.
	System  []string
	Creater rest.Creater
	// Sweeps is how many namespaces are emptied at a time; 0: 4.
	Sweeps int
	// Resync see defaultResync; 0: 15 seconds.
	Resync time.Duration
	// Looks are when a namespace that is gone is looked at again for what was admitted before it ended and stored after; nil: after 2
	// and 30 seconds.
	Looks []time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Now is the clock of conditions; nil: time.Now.
	Now func() time.Time
}

// Validate reports what is missing.
func (c *NamespacesConfig) Validate() error {
	if c.Namespaces == nil || c.Finalize == nil || c.Status == nil || c.Catalog == nil {
		return errors.New("namespace controller: namespaces, finalize, status or catalog is nil")
	}
	if len(c.System) > 0 && c.Creater == nil {
		return errors.New("namespace controller: nothing creates the system namespaces")
	}
	return nil
}

// Namespaces is the controller that empties namespaces which are being deleted, all objects of
// all namespaced resources, and then removes the finalizer `kubernetes` from their spec. It also keeps the
// system namespaces there; several servers that do so at once do no harm.
type Namespaces struct {
	cfg    NamespacesConfig
	sweeps chan struct{} // one slot for each sweep under way
	// missing has something when a system namespace was seen to be missing.
	missing chan struct{}

	mu sync.Mutex
	// active holds the namespaces that have a goroutine; true: it was seen
	// again meanwhile. guarded by mu
	active map[string]bool
	wg     sync.WaitGroup
}

// NewNamespaces returns the controller. Run starts it.
func NewNamespaces(cfg NamespacesConfig) (*Namespaces, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Sweeps <= 0 {
		cfg.Sweeps = defaultSweeps
	}
	if cfg.Resync <= 0 {
		cfg.Resync = defaultResync
	}
	if cfg.Looks == nil {
		cfg.Looks = []time.Duration{2 * time.Second, 30 * time.Second}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Namespaces{cfg: cfg, sweeps: make(chan struct{}, cfg.Sweeps), missing: make(chan struct{}, 1), active: map[string]bool{}}, nil
}

// Run works until ctx is done and all its goroutines ended.
func (c *Namespaces) Run(ctx context.Context) {
	defer c.wg.Wait()
	ctx = request.WithUser(ctx, serviceaccount.UserInfo(metav1.NamespaceSystem, "namespace-controller", ""))
	c.wg.Go(func() { c.keepSystem(ctx) })
	retry := firstRetry
	for ctx.Err() == nil {
		started := time.Now()
		err := c.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > lastRetry {
			retry = firstRetry
		}
		if !errors.Is(err, io.EOF) {
			c.cfg.Logger.Warn("namespaces cannot be followed; it is tried again", "error", err, "retryIn", retry)
		}
		pause(ctx, nil, retry)
		retry = min(2*retry, lastRetry)
	}
}

// follow lists all namespaces and watches them, until the watch ends.
func (c *Namespaces) follow(ctx context.Context) error {
	list, err := c.cfg.Namespaces.List(ctx, &internalversion.ListOptions{})
	if err != nil {
		return fmt.Errorf("list of namespaces: %w", err)
	}
	missing := slices.Clone(c.cfg.System)
	for _, ns := range list.Items {
		c.seen(ctx, ns)
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == rest.MetaOf(ns).Name() })
	}
	c.miss(missing...)
	w, err := c.cfg.Namespaces.Watch(ctx, &internalversion.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true})
	if err != nil {
		return fmt.Errorf("watch of namespaces: %w", err)
	}
	defer w.Stop()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			switch {
			case e.Object == nil:
			case e.Type != "DELETED":
				c.seen(ctx, e.Object)
			case slices.Contains(c.cfg.System, rest.MetaOf(e.Object).Name()):
				c.miss(rest.MetaOf(e.Object).Name())
			}
		}
	}
}

// miss has system namespaces that are missing made again.
func (c *Namespaces) miss(names ...string) {
	if len(names) == 0 {
		return
	}
	c.cfg.Logger.Info("system namespaces are missing; they are created", "namespaces", names)
	select {
	case c.missing <- struct{}{}:
	default:
	}
}

// keepSystem makes the system namespaces whenever one is missing, until ctx is done.
func (c *Namespaces) keepSystem(ctx context.Context) {
	for {
		select {
		case <-c.missing:
		case <-ctx.Done():
			return
		}
		for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
			err := Bootstrap(ctx, c.cfg.Creater, c.cfg.System)
			if err == nil || ctx.Err() != nil {
				break
			}
			c.cfg.Logger.Warn("system namespaces cannot be created; it is tried again", "error", err, "retryIn", retry)
			pause(ctx, nil, retry)
		}
	}
}

// seen gives a namespace that waits for this controller its goroutine.
func (c *Namespaces) seen(ctx context.Context, ns *document.Document) {
	if !waits(ns) {
		return
	}
	name := rest.MetaOf(ns).Name()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.active[name]; ok {
		c.active[name] = true
		return
	}
	c.active[name] = false
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		for again := true; again; again = c.again(name) {
			c.end(ctx, name)
		}
		c.lookAgain(ctx, name) // it has no goroutine any more, so that it may end anew meanwhile
	}()
}

// again reports whether the namespace was seen while its goroutine worked; if not, it has none any more.
func (c *Namespaces) again(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active[name] {
		c.active[name] = false
		return true
	}
	delete(c.active, name)
	return false
}

// waits reports whether the namespace is being deleted and waits for its content to go.
func waits(ns *document.Document) bool {
	return rest.MetaOf(ns).Deleting() && slices.Contains(finalizers(ns), string(corev1.FinalizerKubernetes))
}

func finalizers(ns *document.Document) []string {
	var out []string
	for _, f := range ns.Get("spec", "finalizers").Elements() {
		out = append(out, f.String())
	}
	return out
}

// end empties a namespace, as often as it takes, and finalizes it.
func (c *Namespaces) end(ctx context.Context, name string) {
	retry, told := firstRetry, ""
	for ctx.Err() == nil {
		left, done, err := c.step(ctx, name)
		switch {
		case done:
			return
		case err != nil && ctx.Err() == nil:
			level := slog.LevelDebug // it has been said
			if text := err.Error(); text != told {
				level, told = slog.LevelWarn, text
			}
			c.cfg.Logger.Log(ctx, level, "namespace cannot be emptied", "namespace", name, "error", err)
			pause(ctx, nil, retry)
			retry = min(2*retry, lastRetry)
		case err == nil:
			retry = firstRetry
			c.wait(ctx, name, left)
		}
	}
}

// step sweeps the namespace once. done: there is nothing more to do for it.
func (c *Namespaces) step(ctx context.Context, name string) (left []remainder, done bool, err error) {
	select {
	case c.sweeps <- struct{}{}:
		defer func() { <-c.sweeps }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	ns, err := c.cfg.Namespaces.Get(ctx, name, &metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, true, nil
	case err != nil:
		return nil, false, err
	case !waits(ns):
		return nil, true, nil
	}
	left, failed := c.sweep(ctx, ns)
	if len(failed) == 0 && len(left) == 0 {
		err := c.finalize(ctx, ns)
		return nil, err == nil, err
	}
	if err := c.setConditions(ctx, ns, left, failed); err != nil {
		failed = append(failed, err)
	}
	return left, false, errors.Join(failed...)
}

// finalize takes this controller's finalizer from the namespace that it emptied.
func (c *Namespaces) finalize(ctx context.Context, ns *document.Document) error {
	m := rest.MetaOf(ns)
	uid := m.UID()
	info := onUID{uid: &uid, UpdateFunc: func(_ context.Context, old *document.Document) (*document.Document, error) {
		if !waits(old) {
			return old, nil
		}
		keep := []any{}
		for _, f := range finalizers(old) {
			if f != string(corev1.FinalizerKubernetes) {
				keep = append(keep, f)
			}
		}
		return old.Edit().Set(keep, "spec", "finalizers").Document()
	}}
	_, _, err := c.cfg.Finalize.Update(ctx, m.Name(), info, nil, nil, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pause waits for d, for wake, or for ctx.
func pause(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
