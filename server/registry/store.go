package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage"
)

// Config says what a Store keeps and how.
type Config struct {
	// Resource names it in errors.
	Resource schema.GroupResource
	// Prefix of all keys, without a "/" at its end, e.g. /registry/configmaps.
	Prefix   string
	Storage  storage.Interface
	Strategy rest.Strategy
	// SelectableFields are the fields that selectors may name beyond metadata.name and,
	// for a namespaced resource, metadata.namespace.
	SelectableFields []Field
	// TTLSeconds after which objects vanish; 0: never.
	TTLSeconds uint64
	// WithoutGarbageCollection ignores propagationPolicy orphan and foreground, for kinds
	// that have no dependents.
	WithoutGarbageCollection bool
	// DeleteDuringUpdate has the last word on whether an object whose deletion was requested goes away
	// with an update that removed its last finalizer; nil: yes.
	DeleteDuringUpdate func(obj *document.Document) bool
	// Upgrade brings an object that was stored when the resource was another, such as a custom resource before
	// its schema changed, to what the resource is now. It is applied to all that is read, and returns the
	// object it is given where there is nothing to do. Nil: objects are served as they are stored.
	Upgrade func(obj *document.Document) (*document.Document, error)
	// Downgrade leaves of an object that is about to be stored what can be stored, such as the fields that the
	// storage version of a custom resource has. Nil: all.
	Downgrade func(obj *document.Document) (*document.Document, error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Validate reports what is missing or wrong.
func (c *Config) Validate() error {
	switch {
	case c.Resource.Resource == "":
		return errors.New("registry: resource is empty")
	case c.Storage == nil:
		return fmt.Errorf("registry %s: storage is nil", c.Resource)
	case c.Strategy == nil:
		return fmt.Errorf("registry %s: strategy is nil", c.Resource)
	case !strings.HasPrefix(c.Prefix, "/") || strings.HasSuffix(c.Prefix, "/"):
		return fmt.Errorf("registry %s: prefix %q must begin and must not end with a slash", c.Resource, c.Prefix)
	}
	return nil
}

// Store keeps the objects of one resource. It implements the verbs of server/rest and
// is safe for concurrent use. All its errors are apierrors.APIStatus.
type Store struct {
	cfg        Config
	attrs      storage.AttrFunc
	selectable []string
	shared     [sharedEvents]atomic.Pointer[sharedEvent]
	watches    atomic.Int64 // that are not stopped
	upgrades   upgrades
}

var (
	_ rest.Getter            = (*Store)(nil)
	_ rest.Lister            = (*Store)(nil)
	_ rest.Watcher           = (*Store)(nil)
	_ rest.Creater           = (*Store)(nil)
	_ rest.Updater           = (*Store)(nil)
	_ rest.GracefulDeleter   = (*Store)(nil)
	_ rest.CollectionDeleter = (*Store)(nil)
)

// New returns a Store.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	attrs, err := AttrFunc(cfg.Strategy.NamespaceScoped(), cfg.SelectableFields)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", cfg.Resource, err)
	}
	if cfg.Upgrade != nil && len(cfg.SelectableFields) > 0 {
		attrs = UpgradedAttrs(attrs, cfg.Upgrade)
	}
	selectable := []string{"metadata.name"}
	if cfg.Strategy.NamespaceScoped() {
		selectable = append(selectable, "metadata.namespace")
	}
	for _, f := range cfg.SelectableFields {
		selectable = append(selectable, f.Name)
	}
	return &Store{cfg: cfg, attrs: attrs, selectable: selectable}, nil
}

// Resource returns what the Store keeps.
func (s *Store) Resource() schema.GroupResource { return s.cfg.Resource }

// Strategy returns the strategy around the object itself.
func (s *Store) Strategy() rest.Strategy { return s.cfg.Strategy }

// Attrs reads the labels and selectable fields of a served object, as the Store's
// selectors do.
func (s *Store) Attrs() storage.AttrFunc { return s.attrs }

// Default fills in what a client left out, as every write does.
func (s *Store) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	return s.cfg.Strategy.Default(ctx, obj)
}

// Count returns how many objects are stored in all namespaces.
func (s *Store) Count(ctx context.Context) (int64, error) {
	n, err := s.cfg.Storage.Count(ctx, s.cfg.Prefix+"/")
	return n, s.failed("list", "", err)
}

// Get implements rest.Getter.
func (s *Store) Get(ctx context.Context, name string, opts *metav1.GetOptions) (*document.Document, error) {
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, err
	}
	var o storage.GetOptions
	if opts != nil {
		o.ResourceVersion = opts.ResourceVersion
	}
	row, err := s.cfg.Storage.Get(ctx, key, o)
	if err != nil {
		return nil, s.failed("get", name, err)
	}
	return s.read(row)
}

func dryRun(values []string) bool { return slices.Contains(values, metav1.DryRunAll) }
