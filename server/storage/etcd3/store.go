package etcd3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/value"
)

const (
	// DefaultPrefix is the prefix of all keys, upstream's.
	DefaultPrefix = "/registry"
	// DefaultMaxObjectBytes is etcd's own default limit of a request, 1.5 MiB.
	DefaultMaxObjectBytes = 3 << 19
	// DefaultRequestTimeout is how long a request that has no deadline may take.
	DefaultRequestTimeout = 30 * time.Second
	// oneTimeout bounds a request about one row. etcd itself gives up after 7 seconds.
	oneTimeout = 10 * time.Second

	// readinessTimeout bounds ReadinessCheck.
	readinessTimeout = 2 * time.Second
)

// Config says where a Store keeps its rows and how. Only Client is required.
type Config struct {
	// Client reaches etcd: Embedded.Client or Dial.
	Client *clientv3.Client
	// Prefix is how all keys begin; "" means DefaultPrefix. Keys are given and
	// returned whole. It has no trailing slash.
	Prefix string
	// Codec turns what is served into what is stored; nil means storage.JSONCodec.
	Codec storage.Codec
	// Transformer changes the stored bytes, e.g. encrypts them; nil means value.Identity.
	Transformer value.Transformer
	// MaxObjectBytes is the largest row, as it is stored; 0 means DefaultMaxObjectBytes.
	MaxObjectBytes int
	// RequestTimeout bounds a request whose context has no deadline; 0 means
	// DefaultRequestTimeout. It does not bound a watch.
	RequestTimeout time.Duration
	// Leases may be shared by several Stores of one client; nil makes one with its defaults.
	Leases *Leases
	// Health ends requests to an etcd that does not answer; nil leaves them to their deadlines.
	Health *Health
	// Metrics counts the requests, under these labels; nil counts nothing.
	Metrics         *Metrics
	Group, Resource string
}

// Validate returns why the configuration cannot work.
func (c Config) Validate() error {
	switch {
	case c.Client == nil:
		return errors.New("etcd storage: client missing")
	case c.Prefix != "" && (!strings.HasPrefix(c.Prefix, "/") || c.Prefix == "/" || path.Clean(c.Prefix) != c.Prefix):
		return fmt.Errorf("etcd storage: prefix %q must be a clean absolute path other than /", c.Prefix)
	case c.MaxObjectBytes < 0:
		return errors.New("etcd storage: negative object limit")
	case c.RequestTimeout < 0:
		return errors.New("etcd storage: negative request timeout")
	}
	return nil
}

// Store keeps rows in etcd. It implements storage.Interface.
type Store struct {
	client      *clientv3.Client
	prefix      string // without a trailing slash
	codec       storage.Codec
	transformer value.Transformer
	maxBytes    int
	timeout     time.Duration
	leases      *Leases
	health      *Health
	ahead       *ahead
	ops         operations
	// stream keeps the watches of this Store, but for those that asked for progress, on
	// an etcd stream of their own.
	stream   metadata.MD
	progress progressWatches
}

var _ storage.Interface = (*Store)(nil)

// New returns a Store. It does not connect. The client stays the caller's.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{
		client:      cfg.Client,
		prefix:      cfg.Prefix,
		codec:       cfg.Codec,
		transformer: cfg.Transformer,
		maxBytes:    cfg.MaxObjectBytes,
		timeout:     cfg.RequestTimeout,
		leases:      cfg.Leases,
		health:      cfg.Health,
		stream:      metadata.Pairs("weir-resource", cfg.Resource+"."+cfg.Group),
	}
	s.ops.init(cfg.Metrics, cfg.Health, cfg.Group, cfg.Resource)
	if s.prefix == "" {
		s.prefix = DefaultPrefix
	}
	if s.codec == nil {
		s.codec = storage.JSONCodec{}
	}
	if s.transformer == nil {
		s.transformer = value.Identity{}
	}
	if s.maxBytes == 0 {
		s.maxBytes = DefaultMaxObjectBytes
	}
	if s.timeout == 0 {
		s.timeout = DefaultRequestTimeout
	}
	if s.ahead = cfg.Health.readAhead(); s.ahead == nil {
		s.ahead = &ahead{}
	}
	if s.leases == nil {
		leases, err := NewLeases(LeasesConfig{Client: cfg.Client})
		if err != nil {
			return nil, err
		}
		s.leases = leases
	}
	return s, nil
}

// state is what is known of a row.
type state struct {
	row storage.Row
	// data is the row as the codec stores it, before the transformer.
	data []byte
	// stale says that it would be stored otherwise now; see value.Transformer and storage.Codec's Check.
	stale bool
}

// Create implements storage.Interface.
func (s *Store) Create(ctx context.Context, key string, served []byte, ttl uint64) (storage.Row, error) {
	if err := s.checkKey(key, false); err != nil {
		return storage.Row{}, err
	}
	data, stored, err := s.encode(ctx, key, served)
	if err != nil {
		return storage.Row{}, err
	}
	resp, err := s.put(ctx, &s.ops.create, key, 0, stored, ttl, nil)
	if err != nil {
		return storage.Row{}, err
	}
	if !resp.Succeeded {
		return storage.Row{}, &storage.Error{Code: storage.ErrCodeKeyExists, Key: key, Message: "key exists"}
	}
	return s.row(key, data, uint64(resp.Header.Revision))
}

// Get implements storage.Interface. Every read is linearizable.
func (s *Store) Get(ctx context.Context, key string, opts storage.GetOptions) (storage.Row, error) {
	if err := s.checkKey(key, false); err != nil {
		return storage.Row{}, err
	}
	atLeast, err := storage.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return storage.Row{}, err
	}
	ctx, cancel := s.boundOne(ctx)
	defer cancel()
	started := time.Now()
	resp, err := s.client.KV.Get(ctx, key)
	s.ops.get.observe(started, err)
	if err != nil {
		return storage.Row{}, s.fail(ctx, key, err)
	}
	if current := uint64(resp.Header.Revision); current < atLeast {
		return storage.Row{}, tooLargeRevision(atLeast, current)
	}
	st, err := s.state(ctx, key, first(resp.Kvs), opts.IgnoreNotFound)
	return st.row, err
}

// Count implements storage.Interface.
func (s *Store) Count(ctx context.Context, prefix string) (int64, error) {
	if err := s.checkKey(prefix, true); err != nil {
		return 0, err
	}
	ctx, cancel := s.boundOne(ctx)
	defer cancel()
	started := time.Now()
	resp, err := s.client.KV.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	s.ops.count.observe(started, err)
	if err != nil {
		return 0, s.fail(ctx, prefix, err)
	}
	return resp.Count, nil
}

// GetCurrentResourceVersion implements storage.Interface.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	ctx, cancel := s.boundOne(ctx)
	defer cancel()
	started := time.Now()
	asked := s.health.question()
	// A linearizable read of a key that is never there.
	resp, err := s.client.KV.Get(ctx, s.prefix, clientv3.WithCountOnly())
	s.ops.currentRevision.observe(started, err)
	if err != nil {
		return 0, s.fail(ctx, "", err)
	}
	s.health.heard(asked, resp.Header.Revision)
	return uint64(resp.Header.Revision), nil
}

// Ping returns nil when etcd has answered a linearizable read.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.GetCurrentResourceVersion(ctx)
	return err
}

// ReadinessCheck implements storage.Interface: a Ping of two seconds at most.
func (s *Store) ReadinessCheck() error {
	ctx, cancel := context.WithTimeout(context.Background(), readinessTimeout)
	defer cancel()
	return s.Ping(ctx)
}

// checkKey refuses a key that is not clean or not below the prefix; a recursive one ends with a slash.
func (s *Store) checkKey(key string, recursive bool) error {
	rest, ok := strings.CutPrefix(key, s.prefix)
	if ok && recursive {
		rest, ok = strings.CutSuffix(rest, "/")
		ok = ok && (rest == "" || path.Clean(rest) == rest)
	} else if ok {
		ok = s.isRow(key)
	}
	if ok && (rest == "" || rest[0] == '/') {
		return nil
	}
	return &storage.Error{Code: storage.ErrCodeInvalidKey, Key: key, Message: fmt.Sprintf("invalid key: must be a clean path below %s/", s.prefix)}
}

// isRow reports whether key can be that of a row. Others that somebody has put below the prefix are left out of lists
// and watches: no request could name them, nor could a page begin behind them.
func (s *Store) isRow(key string) bool {
	rest, ok := strings.CutPrefix(key, s.prefix)
	return ok && len(rest) > 1 && rest[0] == '/' && path.Clean(rest) == rest
}

// bound gives ctx a deadline where it has none.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return s.health.during(context.WithCancel(ctx))
	}
	return s.health.during(context.WithTimeout(ctx, s.timeout))
}

// boundOne gives a request about one row a deadline, however long the caller would wait: an etcd that does
// not answer is told to the client while it still listens. It does not bound what the caller computes between two
// requests, such as what admission says.
func (s *Store) boundOne(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.health.during(context.WithTimeout(ctx, min(s.timeout, oneTimeout)))
}

// boundWrite is boundOne for a write: one that has been sent is not given up before its deadline.
func (s *Store) boundWrite(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.health.wait(context.WithTimeout(ctx, min(s.timeout, oneTimeout)))
}

// encode returns a served object as the codec stores it, and as it goes into etcd.
func (s *Store) encode(ctx context.Context, key string, served []byte) (data, stored []byte, err error) {
	if data, err = s.codec.Encode(served); err != nil {
		return nil, nil, fmt.Errorf("key %q: encode: %w", key, err)
	}
	if stored, err = s.transformer.TransformToStorage(ctx, data, value.Key(key)); err != nil {
		if err := untransformed(key, err); err != nil {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("key %q: transform to storage: %w", key, err)
	}
	if n := len(key) + len(stored); n > s.maxBytes {
		return nil, nil, &storage.Error{Code: storage.ErrCodeTooLarge, Key: key, Message: fmt.Sprintf(
			"object is too large to be stored: %d bytes, limit %d", n, s.maxBytes)}
	}
	return data, stored, nil
}

// row returns the row of data, which has just been read or written at rv.
func (s *Store) row(key string, data []byte, rv uint64) (storage.Row, error) {
	served, err := s.codec.Decode(data, rv)
	if err != nil {
		return storage.Row{}, corrupt(key, err)
	}
	return storage.Row{Key: key, Value: storage.NewText(served), ResourceVersion: rv}, nil
}

// state returns the state of the row that etcd holds, where kv is nil: none.
func (s *Store) state(ctx context.Context, key string, kv *mvccpb.KeyValue, ignoreNotFound bool) (state, error) {
	if kv == nil {
		if ignoreNotFound {
			return state{row: storage.Row{Key: key}}, nil
		}
		return state{}, &storage.Error{Code: storage.ErrCodeKeyNotFound, Key: key, Message: "key not found"}
	}
	data, stale, err := s.transformer.TransformFromStorage(ctx, kv.Value, value.Key(key))
	if err != nil {
		s.ops.undecodable()
		return state{}, corrupt(key, err)
	}
	canonical, err := s.codec.Check(data)
	if err != nil {
		s.ops.undecodable()
		return state{}, corrupt(key, err)
	}
	row, err := s.row(key, canonical, uint64(kv.ModRevision))
	if err != nil {
		s.ops.undecodable()
		return state{}, err
	}
	return state{row: row, data: canonical, stale: stale || !bytes.Equal(canonical, data)}, nil
}

// current reads the row.
func (s *Store) current(ctx context.Context, key string, ignoreNotFound bool) (state, error) {
	kv, err := s.fetch(ctx, key)
	if err != nil {
		return state{}, err
	}
	return s.state(ctx, key, kv, ignoreNotFound)
}

// fetch returns what etcd has under key, nil where there is nothing.
func (s *Store) fetch(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	ctx, cancel := s.boundOne(ctx)
	defer cancel()
	started := time.Now()
	resp, err := s.client.KV.Get(ctx, key)
	s.ops.get.observe(started, err)
	if err != nil {
		return nil, s.fail(ctx, key, err)
	}
	return first(resp.Kvs), nil
}

// guess returns the state of a row that a caller believes to be current. ok is false
// where there is nothing to believe.
func (s *Store) guess(key string, cached storage.Row) (st state, ok bool) {
	if cached.Value.IsZero() || cached.ResourceVersion == 0 {
		return state{}, false
	}
	whole := cached.Value.Bytes()
	data, err := s.codec.Encode(whole)
	if err != nil {
		return state{}, false
	}
	cached.Key, cached.Value = key, storage.NewText(whole)
	return state{row: cached, data: data}, true
}

// first returns the only row of an answer, nil when there is none.
func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
