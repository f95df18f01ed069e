package encryption

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage/value"
)

// Intervals are how often things are looked at. What is zero is upstream's.
type Intervals struct {
	// Poll is how often the file is read when nothing tells of a change, and how soon a plugin that kept a new
	// configuration from taking effect is asked again. Default 10 s.
	Poll time.Duration
	// Probe and ProbeFailing are how often a plugin is asked for its status. Default 1 min and 10 s.
	Probe, ProbeFailing time.Duration
	// Fresh and FreshFailure are how long CheckKMS believes the last answer. Default 20 s and 3 s.
	Fresh, FreshFailure time.Duration
	// SeedTTL is how long rows are written with a seed after the plugin last confirmed it. Default 3 min.
	SeedTTL time.Duration
}

func (i *Intervals) complete() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&i.Poll, 10 * time.Second}, {&i.Probe, time.Minute}, {&i.ProbeFailing, 10 * time.Second},
		{&i.Fresh, 20 * time.Second}, {&i.FreshFailure, 3 * time.Second}, {&i.SeedTTL, 3 * time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

// Config says what Open opens. File is required.
type Config struct {
	// File holds an EncryptionConfiguration.
	File string
	// Registerer gets the metrics, under upstream's names; nil: none. Those of KMS are upstream's own, see [KMSMetrics].
	Registerer prometheus.Registerer
	// Logger may be nil.
	Logger *slog.Logger
	// Intervals are for tests.
	Intervals Intervals
}

// Validate reports what is missing.
func (c *Config) Validate() error {
	if c.File == "" {
		return errors.New("encryption configuration: file missing")
	}
	return nil
}

// Encryption gives the Transformers that a file configures. The nil Encryption encrypts nothing.
type Encryption struct {
	config  Config
	logger  *slog.Logger
	metrics *metrics
	current atomic.Pointer[generation]

	mu sync.Mutex
	// failure is why the file is not in force, nil: it is; guarded by mu
	failure error
	// failed is the hash of a content that will not do however often it is read; guarded by mu
	failed string
}

// Open reads the file. A file that is not valid is an error; a KMS plugin that does not answer is none, and CheckKMS
// says so. What Open returns must be closed.
func Open(ctx context.Context, config Config) (*Encryption, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Intervals.complete()
	e := &Encryption{config: config, logger: config.Logger}
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if e.metrics, err = newMetrics(config.Registerer); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(config.File)
	if err != nil {
		return nil, fmt.Errorf("encryption configuration: %w", err)
	}
	g, err := newGeneration(content, config.Intervals, e.logger)
	if err != nil {
		return nil, fmt.Errorf("encryption configuration %s: %w", config.File, err)
	}
	_ = g.check(ctx) // plugins log themselves
	e.current.Store(g)
	e.metrics.inForce(g.hash)
	return e, nil
}

// Close closes the connections. Calls under way end first, later ones that need a KMS plugin fail. Run must have ended.
func (e *Encryption) Close() {
	if e != nil {
		e.current.Load().release()
	}
}

// Forget removes the series of a resource that is served no more.
func (e *Encryption) Forget(gr schema.GroupResource) {
	if e != nil {
		e.metrics.forget(gr)
	}
}

// CheckKMS returns which plugins are unwell and why.
func (e *Encryption) CheckKMS(ctx context.Context) error {
	if e == nil {
		return nil
	}
	g, err := e.acquire()
	if err != nil {
		return err
	}
	defer g.done()
	return g.check(ctx)
}

// CheckConfig returns why the file as it is now is not in force, and nil when it is.
func (e *Encryption) CheckConfig(context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure
}

// For returns the Transformer of a resource. It follows the file.
func (e *Encryption) For(gr schema.GroupResource) value.Transformer {
	if e == nil {
		return value.Identity{}
	}
	return &transformer{owner: e, resource: gr}
}

// acquire returns the generation in force; done must follow.
func (e *Encryption) acquire() (*generation, error) {
	for {
		g := e.current.Load()
		if g.acquire() {
			return g, nil
		}
		if g == e.current.Load() {
			return nil, &value.UnavailableError{Err: errors.New("encryption is closed")}
		}
	}
}

// transformer is the Transformer of one resource.
type transformer struct {
	owner    *Encryption
	resource schema.GroupResource
	view     atomic.Pointer[view] // of the generation that was last in force
}

var _ value.Transformer = (*transformer)(nil)

// acquire returns the view in force; the generation of it must be done with.
func (t *transformer) acquire() (*view, error) {
	g, err := t.owner.acquire()
	if err != nil {
		return nil, err
	}
	v := t.view.Load()
	if v == nil || v.of != g {
		v = t.owner.metrics.view(t.resource, g)
		t.view.Store(v)
	}
	return v, nil
}

// TransformFromStorage implements value.Transformer.
func (t *transformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	v, err := t.acquire()
	if err != nil {
		return nil, false, err
	}
	defer v.of.done()
	return v.transformFrom(ctx, data, dataCtx)
}

// TransformToStorage implements value.Transformer.
func (t *transformer) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	v, err := t.acquire()
	if err != nil {
		return nil, err
	}
	defer v.of.done()
	return v.transformTo(ctx, data, dataCtx)
}

// ByKey returns a Transformer of the rows of all resources; resource says whose row is at a key.
func (e *Encryption) ByKey(resource func(key string) schema.GroupResource) value.Transformer {
	if e == nil {
		return value.Identity{}
	}
	return &byKey{owner: e, resource: resource}
}

type byKey struct {
	owner        *Encryption
	resource     func(key string) schema.GroupResource
	transformers sync.Map // of value.Transformer by schema.GroupResource
}

var _ value.Transformer = (*byKey)(nil)

func (b *byKey) of(dataCtx value.Context) value.Transformer {
	gr := b.resource(string(dataCtx.AuthenticatedData()))
	if t, ok := b.transformers.Load(gr); ok {
		return t.(value.Transformer)
	}
	t, _ := b.transformers.LoadOrStore(gr, b.owner.For(gr))
	return t.(value.Transformer)
}

// TransformFromStorage implements value.Transformer.
func (b *byKey) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	return b.of(dataCtx).TransformFromStorage(ctx, data, dataCtx)
}

// TransformToStorage implements value.Transformer.
func (b *byKey) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return b.of(dataCtx).TransformToStorage(ctx, data, dataCtx)
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
