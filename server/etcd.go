package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage/etcd3"
)

// etcd is one etcd cluster, the embedded one or an external one, and what is kept for it.
type etcd struct {
	// name is that of its health check, as upstream's: etcd, etcd-override-0, etcd-override-1, …
	name   string
	client *clientv3.Client
	// embedded and space are nil for an external one, members for the embedded one.
	embedded *etcd3.Embedded
	members  *etcd3.Members
	space    interface{ Full() error }
	// done is closed when the embedded one ends by itself; nil for an external one.
	done      <-chan struct{}
	closeEtcd func() error

	pings     sync.WaitGroup
	health    *etcd3.Health
	leases    *etcd3.Leases
	compactor *etcd3.Compactor // nil: others drop the history
}

// openEtcd starts the embedded etcd or dials the external one that most resources are in.
func openEtcd(ctx context.Context, c *Config) (*etcd, error) {
	if len(c.EtcdServers) > 0 {
		return dialEtcd("etcd", c.EtcdServers, c)
	}
	embedded, err := etcd3.StartEmbedded(ctx, etcd3.EmbeddedConfig{
		DataDir: filepath.Join(c.DataDir, "etcd"), ListenClient: c.EmbeddedEtcdListen, UnsafeNoFsync: c.UnsafeNoFsync,
		QuotaBytes: c.EmbeddedEtcdQuotaBytes, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	return &etcd{name: "etcd", client: embedded.Client(), embedded: embedded, space: embedded, done: embedded.Done(), closeEtcd: embedded.Close}, nil
}

func dialEtcd(name string, endpoints []string, c *Config) (*etcd, error) {
	members, err := etcd3.DialMembers(etcd3.DialConfig{
		Endpoints: endpoints, CAFile: c.EtcdCAFile, CertFile: c.EtcdCertFile, KeyFile: c.EtcdKeyFile, Logger: c.Logger.With("etcd", name)})
	if err != nil {
		return nil, fmt.Errorf("etcd at %v: %w", endpoints, err)
	}
	return &etcd{name: name, client: members.Client(), members: members, closeEtcd: members.Close}, nil
}

// start begins to watch over the etcd and to drop its history.
func (e *etcd) start(c *Config, metrics *etcd3.Metrics) (err error) {
	logger := c.Logger.With("etcd", e.name)
	if e.health, err = etcd3.StartHealth(etcd3.HealthConfig{Client: e.client, Embedded: e.embedded, Members: e.members, Logger: logger}); err != nil {
		return err
	}
	if e.members != nil {
		metrics.Report(e.name, e.members)
	}
	e.leases, err = etcd3.NewLeases(etcd3.LeasesConfig{Client: e.client, Metrics: metrics,
		Reuse: time.Duration(c.Storage.LeaseReuseSeconds) * time.Second})
	if err != nil || c.Storage.CompactionInterval < 0 {
		return err
	}
	e.compactor, err = etcd3.StartCompactor(etcd3.CompactorConfig{Client: e.client, Interval: c.Storage.CompactionInterval, Logger: logger})
	return err
}

// full returns why an embedded etcd takes no writes. It is a warning: reads go on, no start makes room, and who would
// delete objects must get here.
func (e *etcd) full(context.Context) error {
	if e.space == nil {
		return nil
	}
	if err := e.space.Full(); err != nil {
		return &warning{err}
	}
	return nil
}

// ping reads from the etcd, within timeout. One that is known to be down is not asked, nor an embedded one that is known to be
// defragmented. Where it is and that is not known, as by etcdctl, the read does not heed the timeout and stays behind.
func (e *etcd) ping(ctx context.Context, prefix string, timeout time.Duration) error {
	if full := (*etcd3.FullError)(nil); errors.As(e.full(ctx), &full) && full.Blocked {
		return full
	}
	if err := e.health.Why(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answered := make(chan error, 1)
	e.pings.Go(func() {
		_, err := e.client.Get(ctx, prefix+"/health", clientv3.WithCountOnly())
		answered <- err
	})
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if failed := e.members.Failed(); err != nil && failed != nil {
		return fmt.Errorf("%w: %w", err, failed)
	}
	return err
}

// silent returns which members of an external one do not answer, as a warning: the others have their requests.
func (e *etcd) silent() error {
	if e.members == nil {
		return nil
	}
	if err := e.members.Silent(); err != nil {
		return &warning{fmt.Errorf("members that do not answer, and get no requests: %w", err)}
	}
	return nil
}

func (e *etcd) close() error {
	if e.compactor != nil {
		e.compactor.Close()
	}
	if e.health != nil {
		e.health.Close()
	}
	e.pings.Wait()
	return e.closeEtcd()
}

// clusters are the etcd clusters of a server. The first has all resources that are not placed elsewhere.
type clusters struct {
	all    []*etcd
	placed map[schema.GroupResource]*etcd
}

// openClusters opens all clusters. Overrides that name the same servers, in whatever order, are one.
func openClusters(ctx context.Context, c *Config) (_ *clusters, err error) {
	overrides, err := parseOverrides(c.Storage.ServersOverrides)
	if err != nil {
		return nil, err
	}
	main, err := openEtcd(ctx, c)
	if err != nil {
		return nil, err
	}
	out := &clusters{all: []*etcd{main}, placed: map[schema.GroupResource]*etcd{}}
	same := func(servers []string) string {
		servers = slices.Clone(servers)
		slices.Sort(servers)
		return strings.Join(slices.Compact(servers), ";")
	}
	known := map[string]*etcd{}
	if len(c.EtcdServers) > 0 {
		known[same(c.EtcdServers)] = main
	}
	for _, o := range overrides {
		at := known[same(o.servers)]
		if at == nil {
			if at, err = dialEtcd(fmt.Sprintf("etcd-override-%d", len(out.all)-1), o.servers, c); err != nil {
				return nil, errors.Join(err, out.close())
			}
			known[same(o.servers)] = at
			out.all = append(out.all, at)
		}
		out.placed[o.resource] = at
	}
	return out, nil
}

// of returns the cluster that a resource is in.
func (c *clusters) of(gr schema.GroupResource) *etcd {
	if at := c.placed[gr]; at != nil {
		return at
	}
	return c.all[0]
}

// unserved returns the resources that a flag names but that are not in the catalog: misspelt, or of a definition that is not
// there yet.
func unserved[V any](named map[schema.GroupResource]V, catalog rest.Catalog) []schema.GroupResource {
	var out []schema.GroupResource
	for gr := range named {
		if catalog.Resource(gr.Group, gr.Resource) == nil {
			out = append(out, gr)
		}
	}
	slices.SortFunc(out, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// close closes all; what uses them must have ended.
func (c *clusters) close() error {
	var errs []error
	for _, e := range c.all {
		errs = append(errs, e.close())
	}
	return errors.Join(errs...)
}

// readiness returns upstream's checks: one of each cluster for health, and one more for readiness; there also, whether the
// embedded one is full. An embedded one that does not answer fails readiness only: that is a defragmentation, which is not ended
// but begun again by a start, or a disk that hangs. When it ends by itself, so does the server.
func (c *clusters) readiness(config *Config) (healthy, ready []check) {
	for _, e := range c.all {
		healthy = append(healthy, check{e.name, func(ctx context.Context) error {
			err := e.ping(ctx, config.EtcdPrefix, config.Storage.HealthcheckTimeout)
			if err != nil && e.space != nil {
				return &warning{err}
			}
			if err == nil {
				return e.silent()
			}
			return err
		}})
		name := "etcd-readiness"
		if suffix, ok := strings.CutPrefix(e.name, "etcd-override-"); ok {
			name = "etcd-override-readiness-" + suffix
		}
		ready = append(ready, check{name, func(ctx context.Context) error {
			return e.ping(ctx, config.EtcdPrefix, config.Storage.ReadycheckTimeout)
		}})
		if e.space != nil {
			ready = append(ready, check{e.name + "-space", e.full})
		}
	}
	return healthy, ready
}
