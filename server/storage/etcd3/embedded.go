package etcd3

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/features"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"
)

const (
	// memberName and memberURL are what etcd calls a member that was not told its
	// name. Nothing listens on the URL: there are no peers.
	memberName = "default"
	memberURL  = "http://127.0.0.1:2380"

	// tick and electionTicks are etcd's defaults. The first election does not wait
	// for them, see elect.
	tick          = 100 * time.Millisecond
	electionTicks = 10

	// progressInterval is how often a watch that asked for it learns the current revision.
	progressInterval = 5 * time.Second

	// requestOverhead is what a transaction adds to the object it stores.
	requestOverhead = 64 << 10

	// maxQuotaBytes bounds the quota: as much is mapped into memory, and a tenth more.
	maxQuotaBytes = 1 << 40
	// quotaOverrun is more than what is written beyond the quota before it is noticed.
	quotaOverrun = 1 << 30
)

// ErrLocked says that another process uses the data directory.
var ErrLocked = errors.New("data directory is in use by another process")

// EmbeddedConfig says how an etcd runs within this process.
type EmbeddedConfig struct {
	// DataDir is the directory of its data, created with mode 0700 where it is missing. Required.
	DataDir string
	// ListenClient is where etcdctl and other gRPC clients reach it, without TLS
	// and without authentication: HOST:PORT (port 0: any, see Embedded.Addr) or
	// unix:///PATH (mode 0600). "" opens no socket at all.
	ListenClient string
	// UnsafeNoFsync does without fsync: faster, but a crash of the machine may lose
	// or corrupt what was written. A crash of the process does not.
	UnsafeNoFsync bool
	// Logger gets etcd's warnings and errors; nil drops them.
	Logger *slog.Logger
	// QuotaBytes is the size of the database from which writes are refused until there is
	// room again, see Embedded.Full; 0 means DefaultQuotaBytes. 1 TiB at most.
	QuotaBytes int64
	// MaxObjectBytes is the largest object stored; 0 means DefaultMaxObjectBytes.
	MaxObjectBytes int
	// Clock is for tests; nil means the real one.
	Clock clock.Clock
}

// Validate returns why the configuration cannot work.
func (c EmbeddedConfig) Validate() error {
	if c.DataDir == "" {
		return errors.New("embedded etcd: data directory missing")
	}
	if c.QuotaBytes < 0 || c.MaxObjectBytes < 0 {
		return errors.New("embedded etcd: negative limit")
	}
	if c.QuotaBytes > maxQuotaBytes {
		return fmt.Errorf("embedded etcd: a quota of %d bytes: %d are possible at most", c.QuotaBytes, int64(maxQuotaBytes))
	}
	return nil
}

// Embedded is an etcd of one member that runs within this process and is called
// without a socket.
//
// What its client returns may share memory with the server: it must not be written
// to, and must be copied where it is kept.
type Embedded struct {
	server   *etcdserver.EtcdServer
	client   *clientv3.Client
	streams  *streams
	space    *space
	lock     *dirLock
	grpc     *grpc.Server
	listener net.Listener
	serving  sync.WaitGroup
	close    func() error
}

// StartEmbedded starts an etcd and returns when it serves. ctx bounds the start only.
// Its error is ErrLocked when another process uses the data directory.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.MaxObjectBytes == 0 {
		cfg.MaxObjectBytes = DefaultMaxObjectBytes
	}
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = DefaultQuotaBytes
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded etcd: %w", err)
	}
	serverConfig, err := cfg.server()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.DataDir, serverConfig.BackendPath())
	if err != nil {
		return nil, fmt.Errorf("embedded etcd: %s: %w", cfg.DataDir, err)
	}
	e := &Embedded{lock: lock}
	e.close = sync.OnceValue(e.shutdown)
	if cfg.ListenClient != "" {
		if e.listener, err = listen(cfg.ListenClient); err != nil {
			return nil, errors.Join(fmt.Errorf("embedded etcd: %w", err), e.Close())
		}
		warnOpen(ctx, cfg.Logger, e.listener.Addr())
	}
	if e.server, err = etcdserver.NewServer(serverConfig); err != nil {
		e.server = nil
		return nil, errors.Join(fmt.Errorf("embedded etcd: start: %w", err), e.Close())
	}
	// etcd looks at its quota when a write comes, and again when it applies it: there the write is done and said to be refused.
	// The one member needs the former only, and the latter took the quota from the configuration when it was made.
	e.server.Cfg.QuotaBackendBytes = cfg.QuotaBytes
	e.server.Start()
	e.client, e.streams = newInProcessClient(e.server)
	if err := e.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded etcd: start: %w", err), e.Close())
	}
	e.space = cfg.space(e.server, e.client)
	e.space.start(ctx)
	if e.listener != nil {
		e.grpc = v3rpc.Server(e.server, nil, nil)
		e.serving.Go(func() { _ = e.grpc.Serve(e.listener) })
	}
	return e, nil
}

// server returns etcd's own configuration.
func (c EmbeddedConfig) server() (config.ServerConfig, error) {
	peers, err := types.NewURLs([]string{memberURL})
	if err != nil {
		return config.ServerConfig{}, fmt.Errorf("embedded etcd: %w", err)
	}
	lg := newZap(c.Logger)
	return config.ServerConfig{
		Name:                        memberName,
		DataDir:                     c.DataDir,
		PeerURLs:                    peers,
		ClientURLs:                  types.URLs{url.URL{Scheme: "unix", Path: filepath.Join(c.DataDir, "in-process")}},
		InitialPeerURLsMap:          types.URLsMap{memberName: peers},
		InitialClusterToken:         "etcd-cluster",
		NewCluster:                  true,
		TickMs:                      uint(tick / time.Millisecond),
		ElectionTicks:               electionTicks,
		InitialElectionTickAdvance:  true,
		PreVote:                     true,
		SnapshotCount:               etcdserver.DefaultSnapshotCount,
		SnapshotCatchUpEntries:      etcdserver.DefaultSnapshotCatchUpEntries,
		MaxSnapFiles:                5,
		MaxWALFiles:                 5,
		BackendFreelistType:         bolt.FreelistMapType,
		QuotaBackendBytes:           c.appliedQuota(),
		MaxTxnOps:                   128,
		MaxRequestBytes:             uint(c.MaxObjectBytes + requestOverhead),
		MaxConcurrentStreams:        1 << 20,
		WarningApplyDuration:        100 * time.Millisecond,
		WarningUnaryRequestDuration: 300 * time.Millisecond,
		StrictReconfigCheck:         true,
		BcryptCost:                  10,
		TokenTTL:                    300,
		Logger:                      lg,
		WatchProgressNotifyInterval: progressInterval,
		UnsafeNoFsync:               c.UnsafeNoFsync,
		DowngradeCheckTime:          5 * time.Second,
		CompactHashCheckTime:        time.Minute,
		MaxLearners:                 membership.DefaultMaxLearners,
		V2Deprecation:               config.V2DeprDefault,
		ServerFeatureGate:           features.NewDefaultServerFeatureGate(memberName, lg),
		Metrics:                     "basic",
	}, nil
}

// appliedQuota returns the quota that etcd is made with: none, or one that is not reached, see StartEmbedded. By it the file
// is mapped, a tenth more or 10 GiB for none; one that outgrows that is mapped anew, and nothing is answered meanwhile.
func (c EmbeddedConfig) appliedQuota() int64 {
	if c.QuotaBytes <= DefaultQuotaBytes {
		return -1
	}
	return c.QuotaBytes + quotaOverrun
}

// space returns what makes room in the server when it is full.
func (c EmbeddedConfig) space(server *etcdserver.EtcdServer, client *clientv3.Client) *space {
	s := &space{server: server, client: client, quota: c.QuotaBytes, room: int64(server.Cfg.MaxRequestBytes), clock: c.Clock, logger: c.Logger, diskFree: diskFree}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// ready waits until the server has a leader, itself, and answers a read.
func (e *Embedded) ready(ctx context.Context) error {
	if err := e.elect(ctx); err != nil {
		return err
	}
	for {
		_, err := e.client.Get(ctx, "\x00", clientv3.WithCountOnly())
		// A read that meets the election itself is refused; it is as good as not asked.
		if !errors.Is(err, etcderrors.ErrLeaderChanged) && !errors.Is(err, rpctypes.ErrLeaderChanged) {
			return err
		}
	}
}

// elect makes the only member stand for election at once, instead of after an
// election timeout of a second or two: it is told, as by a leader that hands over.
func (e *Embedded) elect(ctx context.Context) error {
	id := uint64(e.server.MemberID())
	kind := raftpb.MsgTimeoutNow
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for e.server.Leader() == 0 {
		// Before the member has applied its own membership it refuses to stand.
		if err := e.server.Process(ctx, &raftpb.Message{Type: &kind, To: &id, From: &id}); err != nil {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.server.StopNotify():
			return errors.New("server stopped")
		}
	}
	return nil
}

// Client returns the client that calls the server in process. Close closes it.
func (e *Embedded) Client() *clientv3.Client { return e.client }

// Full returns nil, or a *FullError that says why no writes are taken and what is done about it. Where history fills the quota,
// it is dropped and the database defragmented, after a start too.
func (e *Embedded) Full() error {
	if full := e.space.full.Load(); full != nil {
		return full
	}
	return nil
}

// Addr returns where gRPC clients reach the server, nil when nowhere.
func (e *Embedded) Addr() net.Addr {
	if e.listener == nil {
		return nil
	}
	return e.listener.Addr()
}

// Done returns a channel that is closed when the server has stopped, by Close or by
// a fault of its own.
func (e *Embedded) Done() <-chan struct{} { return e.server.StopNotify() }

// Close stops the server and frees the data directory. It may be called more than
// once. Nothing may use the client any more.
func (e *Embedded) Close() error { return e.close() }

func (e *Embedded) shutdown() error {
	var errs []error
	if e.space != nil {
		e.space.close()
	}
	if e.client != nil {
		if err := e.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			errs = append(errs, err)
		}
		e.streams.wait()
	}
	if e.grpc != nil {
		e.grpc.Stop()
		e.serving.Wait()
	} else if e.listener != nil {
		errs = append(errs, e.listener.Close())
	}
	if e.server != nil {
		e.server.Stop()
		_ = e.server.Logger().Sync()
	}
	errs = append(errs, e.lock.Unlock())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("embedded etcd: close: %w", err)
	}
	return nil
}

// listen opens the socket for gRPC clients.
func listen(where string) (net.Listener, error) {
	path, ok := strings.CutPrefix(where, "unix://")
	if !ok {
		return net.Listen("tcp", where)
	}
	// The lock on the data directory is held: a socket that is still there is stale.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// warnOpen says when others than this machine can reach the server.
func warnOpen(ctx context.Context, logger *slog.Logger, addr net.Addr) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || logger == nil {
		return
	}
	logger.WarnContext(ctx, "embedded etcd is open to the network without TLS or authentication", "address", addr.String())
}

// newZap returns the logger of etcd, whose warnings and errors go to logger.
func newZap(logger *slog.Logger) *zap.Logger {
	hook := zap.WithPanicHook(panicHook{})
	if logger == nil {
		return zap.NewNop().WithOptions(hook)
	}
	return zap.New(slogCore{logger: logger}, hook)
}
