package cacher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage"
)

const testPrefix = "/registry/pods/"

// fake is a storage in memory whose watches can be made to fail. They have no selectors.
type fake struct {
	mu        sync.Mutex
	changed   chan struct{}
	rv        uint64
	compacted uint64
	rows      map[string]storage.Row
	log       []storage.Event
	progress  uint64 // counts requests
	watches   int    // open now
	lists     int    // done so far
	gets      int
	current   int
	// epoch ends all watches when it changes.
	epoch    int
	epochErr error
	// silent holds events and progress back from watches.
	silent bool
	// block, where not nil, is waited for by GetCurrentResourceVersion and lists.
	block   chan struct{}
	listErr error
	// getErr are the errors of Get, by key.
	getErr map[string]error
	// onNext is called before a watch gives its events.
	onNext func(f *fake) error
}

func newFake() *fake {
	return &fake{rv: 1, rows: map[string]storage.Row{}, changed: make(chan struct{})}
}

func (f *fake) wakeLocked() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.wakeLocked()
}

// kill ends all watches with err.
func (f *fake) kill(err error) {
	f.do(func() { f.epoch++; f.epochErr = err })
}

// compact forgets what led to the current state.
func (f *fake) compact() { f.do(func() { f.compacted = f.rv }) }

// skip uses up revisions, as writes of another resource do.
func (f *fake) skip(n uint64) { f.do(func() { f.rv += n }) }

func (f *fake) putLocked(key string, value []byte) storage.Row {
	f.rv++
	value, err := storage.JSONCodec{}.Decode(value, f.rv)
	if err != nil {
		panic(err)
	}
	row := storage.Row{Key: key, Value: storage.NewText(value), ResourceVersion: f.rv}
	prev, ok := f.rows[key]
	kind := storage.Added
	if ok {
		kind = storage.Modified
	}
	f.rows[key] = row
	f.log = append(f.log, storage.Event{Type: kind, Row: row, Prev: prev})
	f.wakeLocked()
	return row
}

func (f *fake) Create(_ context.Context, key string, value []byte, _ uint64) (storage.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.rows[key]; ok {
		return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyExists, Key: key}
	}
	return f.putLocked(key, value), nil
}

func (f *fake) GuaranteedUpdate(_ context.Context, key string, opts storage.UpdateOptions, update storage.UpdateFunc) (storage.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current, ok := f.rows[key]
	if !ok {
		if !opts.IgnoreNotFound {
			return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyNotFound, Key: key}
		}
		current = storage.Row{Key: key}
	}
	value, _, err := update(current)
	if err != nil {
		return storage.Row{}, err
	}
	return f.putLocked(key, value), nil
}

func (f *fake) Delete(_ context.Context, key string, _ storage.DeleteOptions) (storage.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row, ok := f.rows[key]
	if !ok {
		return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyNotFound, Key: key}
	}
	f.rv++
	delete(f.rows, key)
	prev := row
	row.ResourceVersion = f.rv
	value, _ := storage.JSONCodec{}.Decode(row.Value.Bytes(), f.rv)
	row.Value = storage.NewText(value)
	f.log = append(f.log, storage.Event{Type: storage.Deleted, Row: row, Prev: prev})
	f.wakeLocked()
	return row, nil
}

func (f *fake) Get(_ context.Context, key string, opts storage.GetOptions) (storage.Row, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gets++
	if err := f.getErr[key]; err != nil {
		return storage.Row{}, err
	}
	return found(key, f.rows[key], opts)
}

func (f *fake) GetList(ctx context.Context, key string, opts storage.ListOptions) (storage.List, error) {
	if err := f.wait(ctx); err != nil {
		return storage.List{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if f.listErr != nil {
		return storage.List{}, f.listErr
	}
	revision, err := storage.ResolveListRevision(key, opts)
	if err != nil {
		return storage.List{}, err
	}
	rows := f.rows
	list := storage.List{ResourceVersion: f.rv}
	if at := revision.Exact; at > 0 {
		if at > f.rv {
			return storage.List{}, &storage.Error{Code: storage.ErrCodeResourceVersionTooLarge, Key: key, ResourceVersion: f.rv}
		}
		if at < f.compacted {
			return storage.List{}, &storage.Error{Code: storage.ErrCodeExpired, Key: key}
		}
		rows = map[string]storage.Row{}
		for _, e := range f.log {
			switch {
			case e.Row.ResourceVersion > at:
			case e.Type == storage.Deleted:
				delete(rows, e.Row.Key)
			default:
				rows[e.Row.Key] = e.Row
			}
		}
		list.ResourceVersion = at
	}
	for k, row := range rows {
		if strings.HasPrefix(k, key) && k >= revision.StartKey {
			list.Rows = append(list.Rows, row)
		}
	}
	sort.Slice(list.Rows, func(i, j int) bool { return list.Rows[i].Key < list.Rows[j].Key })
	if n := int(opts.Predicate.Limit); n > 0 && len(list.Rows) > n {
		list.Rows = list.Rows[:n]
		list.Continue, err = storage.NextPage(list.Rows[n-1].Key, key, list.ResourceVersion)
	}
	return list, err
}

// wait waits for block.
func (f *fake) wait(ctx context.Context) error {
	f.mu.Lock()
	block := f.block
	f.mu.Unlock()
	if block == nil {
		return nil
	}
	select {
	case <-block:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fake) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	f.mu.Lock()
	f.current++
	f.mu.Unlock()
	if err := f.wait(ctx); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rv, nil
}

func (f *fake) Count(context.Context, string) (int64, error) { return int64(len(f.rows)), nil }

func (f *fake) RequestWatchProgress(context.Context) error {
	f.do(func() { f.progress++ })
	return nil
}

func (f *fake) ReadinessCheck() error { return nil }

func (f *fake) Watch(ctx context.Context, key string, opts storage.ListOptions) (storage.Watcher, error) {
	rv, err := storage.ParseResourceVersion(opts.ResourceVersion)
	if err != nil || rv == 0 {
		return nil, fmt.Errorf("fake: watch at %q: %w", opts.ResourceVersion, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches++
	return &fakeWatcher{fake: f, ctx: ctx, key: key, rv: rv, epoch: f.epoch, asked: f.progress, bare: opts.Bare, predicate: opts.Predicate}, nil
}

type fakeWatcher struct {
	fake  *fake
	ctx   context.Context
	key   string
	rv    uint64
	at    int
	epoch int
	asked uint64
	bare  bool
	once  sync.Once

	predicate storage.SelectionPredicate
}

func (w *fakeWatcher) Stop() { w.once.Do(func() { w.fake.do(func() { w.fake.watches-- }) }) }

func (w *fakeWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	f := w.fake
	for {
		f.mu.Lock()
		onNext := f.onNext
		f.mu.Unlock()
		if onNext != nil {
			if err := onNext(f); err != nil {
				return nil, err
			}
		}
		f.mu.Lock()
		changed := f.changed
		out, err := w.nextLocked()
		f.mu.Unlock()
		if err != nil || len(out) > 0 {
			return out, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.ctx.Done():
			return nil, io.EOF
		}
	}
}

func (w *fakeWatcher) nextLocked() ([]storage.Event, error) {
	f := w.fake
	if w.epoch != f.epoch {
		return nil, f.epochErr
	}
	if f.silent {
		return nil, nil
	}
	if w.rv < f.compacted {
		late := f.rv > w.rv
		for ; late && w.at < len(f.log); w.at++ {
			if rv := f.log[w.at].Row.ResourceVersion; rv > w.rv {
				break
			}
		}
		if late && w.at < len(f.log) {
			return nil, &storage.Error{Code: storage.ErrCodeExpired, Message: "compacted"}
		}
	}
	var out []storage.Event
	seen := w.rv
	for ; w.at < len(f.log); w.at++ {
		e := f.log[w.at]
		if e.Row.ResourceVersion <= seen || !strings.HasPrefix(e.Row.Key, w.key) {
			continue
		}
		if !w.predicate.Empty() {
			w.rv = e.Row.ResourceVersion
			var ok bool
			if e, ok = selectedEvent(e, w.predicate); !ok {
				continue
			}
		}
		if w.bare {
			e.Prev = storage.Row{}
			if e.Type == storage.Deleted {
				e.Row.Value = storage.Text{}
			}
		}
		out = append(out, e)
		w.rv = e.Row.ResourceVersion
	}
	if len(out) == 0 && w.asked != f.progress {
		w.asked = f.progress
		w.rv = f.rv
		return []storage.Event{{Type: storage.Bookmark, Row: storage.Row{ResourceVersion: f.rv}}}, nil
	}
	return out, nil
}

// selectedEvent returns what an event is to those who select.
func selectedEvent(e storage.Event, p storage.SelectionPredicate) (storage.Event, bool) {
	matches := func(row storage.Row) bool {
		if row.Value.IsZero() {
			return false
		}
		ok, err := p.Matches(row.Value.Bytes())
		if err != nil {
			panic(err)
		}
		return ok
	}
	was, is := matches(e.Prev), e.Type != storage.Deleted && matches(e.Row)
	switch {
	case is && was:
		e.Type = storage.Modified
	case is:
		e.Type = storage.Added
	case was:
		e.Type = storage.Deleted
	}
	return e, is || was
}

// pod returns the JSON of a test object.
func pod(namespace, name, node, app string) []byte {
	return fmt.Appendf(nil, `{"kind":"Pod","metadata":{"labels":{"app":%q},"name":%q,"namespace":%q},"spec":{"nodeName":%q}}`, app, name, namespace, node)
}

func podKey(namespace, name string) string { return testPrefix + namespace + "/" + name }

// podAttrs reads what pod wrote.
func podAttrs(value []byte) (labels.Set, fields.Set, error) {
	if len(value) == 0 {
		return nil, nil, errors.New("no value")
	}
	between := func(from string) string {
		_, rest, ok := strings.Cut(string(value), from+`":"`)
		if !ok {
			return ""
		}
		text, _, _ := strings.Cut(rest, `"`)
		return text
	}
	return labels.Set{"app": between(`"app`)}, fields.Set{
		nameField: between(`"name`), namespaceField: between(`"namespace`), "spec.nodeName": between(`"nodeName`),
	}, nil
}

// newTestCacher returns a cacher on store that is stopped with the test.
func newTestCacher(t testing.TB, store storage.Interface, change func(*Config)) *Cacher {
	t.Helper()
	config := Config{
		Storage:  store,
		Prefix:   testPrefix,
		Resource: schema.GroupResource{Resource: "pods"},
		GetAttrs: podAttrs,
		Logger:   slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}
