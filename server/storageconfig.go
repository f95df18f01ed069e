package server

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
)

// Defaults of StorageConfig.
const (
	DefaultCompactionInterval       = etcd3.DefaultCompactionInterval
	DefaultLeaseReuse               = etcd3.DefaultLeaseReuse
	DefaultEventTTL                 = time.Hour
	DefaultCountPollPeriod          = time.Minute
	DefaultEtcdCheckTimeout         = 2 * time.Second
	DefaultWatchCacheEventBytes     = cacher.DefaultRingBytes
	DefaultWatchCachesEventBytes    = 256 << 20
	DefaultWatchCacheIdleTimeout    = 10 * time.Minute
	DefaultConsistencyCheckInterval = 5 * time.Second
	DefaultEmbeddedEtcdQuotaBytes   = etcd3.DefaultQuotaBytes
)

// MinEmbeddedEtcdQuotaBytes has room for the objects that a server makes for itself, and for others.
const MinEmbeddedEtcdQuotaBytes = 16 << 20

// consistencyCheckShare is the part of one processor that the comparisons of a cache take, where no interval is given.
const consistencyCheckShare = 1.0 / 200

// StorageConfig says in which etcd clusters resources are, and how they are cached. The zero value is good.
// Intervals, periods and the idle timeout: 0 means the default, below zero never.
type StorageConfig struct {
	// ServersOverrides place resources in other etcd clusters: GROUP/RESOURCE#URL;URL…, with an empty group for
	// the core's. They share the prefix, certificates and everything else with the first cluster.
	ServersOverrides []string
	// CompactionInterval is how often, and to which age, history is dropped from each cluster, by one server at a
	// time. Default DefaultCompactionInterval.
	CompactionInterval time.Duration
	// CountPollPeriod is how often the objects of each resource are counted for metrics. Default DefaultCountPollPeriod.
	CountPollPeriod time.Duration
	// HealthcheckTimeout and ReadycheckTimeout bound the checks of each cluster; they are not negative. Default
	// DefaultEtcdCheckTimeout.
	HealthcheckTimeout, ReadycheckTimeout time.Duration
	// LeaseReuseSeconds is for how long objects with a TTL share one lease, in seconds. Default DefaultLeaseReuse.
	LeaseReuseSeconds int64
	// EventTTL is how long an Event is kept after its last write, in whole seconds. Default DefaultEventTTL.
	EventTTL time.Duration

	// DisableWatchCache serves everything from etcd.
	DisableWatchCache bool
	// WatchCacheSizes are RESOURCE[.GROUP]#SIZE: how many events the cache of a resource remembers at most, rounded up
	// to a power of two; 0: the resource is served from etcd.
	WatchCacheSizes []string
	// WatchCacheEventBytes bounds the memory of the events that the cache of a resource remembers, in bytes: what they
	// alone keep alive. The oldest are forgotten, but for 100. Default DefaultWatchCacheEventBytes.
	WatchCacheEventBytes int64
	// WatchCachesEventBytes bounds the same for all resources together. Default DefaultWatchCachesEventBytes.
	WatchCachesEventBytes int64
	// WatchCacheIdleTimeout is after how long without any use the cache of a resource is stopped and its memory
	// freed. Default DefaultWatchCacheIdleTimeout.
	WatchCacheIdleTimeout time.Duration
	// ConsistencyCheckInterval is the time between comparisons of each cache with etcd. By default it is
	// DefaultConsistencyCheckInterval, or where that is longer 200 times what the last comparison took, up to five minutes, and five minutes while nothing is written.
	ConsistencyCheckInterval time.Duration
	// checksGiveWay: ConsistencyCheckInterval was not given.
	checksGiveWay bool
	// OnInconsistency is told of each difference that a comparison finds; nil is not told. It must not wait.
	OnInconsistency func(error)
}

func (c *StorageConfig) complete() {
	c.checksGiveWay = c.checksGiveWay || c.ConsistencyCheckInterval == 0
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.CompactionInterval, DefaultCompactionInterval},
		{&c.CountPollPeriod, DefaultCountPollPeriod},
		{&c.HealthcheckTimeout, DefaultEtcdCheckTimeout},
		{&c.ReadycheckTimeout, DefaultEtcdCheckTimeout},
		{&c.EventTTL, DefaultEventTTL},
		{&c.WatchCacheIdleTimeout, DefaultWatchCacheIdleTimeout},
		{&c.ConsistencyCheckInterval, DefaultConsistencyCheckInterval},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	c.WatchCacheEventBytes = cmp.Or(c.WatchCacheEventBytes, DefaultWatchCacheEventBytes)
	c.WatchCachesEventBytes = cmp.Or(c.WatchCachesEventBytes, DefaultWatchCachesEventBytes)
}

func (c *StorageConfig) validate() error {
	_, overrides := parseOverrides(c.ServersOverrides)
	_, sizes := parseCacheSizes(c.WatchCacheSizes)
	errs := []error{overrides, sizes}
	if c.HealthcheckTimeout < 0 || c.ReadycheckTimeout < 0 {
		errs = append(errs, errors.New("--etcd-healthcheck-timeout and --etcd-readycheck-timeout must be positive"))
	}
	if c.WatchCacheEventBytes < 0 || c.WatchCachesEventBytes < 0 {
		errs = append(errs, errors.New("--watch-cache-event-memory and --watch-cache-event-memory-total must be positive"))
	}
	if c.LeaseReuseSeconds < 0 {
		errs = append(errs, errors.New("--lease-reuse-duration-seconds must not be negative"))
	}
	if c.EventTTL > 0 && c.EventTTL < time.Second {
		errs = append(errs, errors.New("--event-ttl must be a second at least, or 0 for ever"))
	}
	return errors.Join(errs...)
}

// eventTTLSeconds is after how many seconds an Event vanishes; 0: never.
func (c *StorageConfig) eventTTLSeconds() uint64 { return uint64(max(c.EventTTL, 0) / time.Second) }

// checkShare is the part of one processor that the comparisons of a cache may take; 0: any.
func (c *StorageConfig) checkShare() float64 {
	if c.checksGiveWay {
		return consistencyCheckShare
	}
	return 0
}

// serversOverride places a resource.
type serversOverride struct {
	resource schema.GroupResource
	servers  []string
}

// parseOverrides reads upstream's --etcd-servers-overrides.
func parseOverrides(overrides []string) ([]serversOverride, error) {
	var out []serversOverride
	for _, text := range overrides {
		name, list, ok := strings.Cut(text, "#")
		group, resource, named := strings.Cut(name, "/")
		o := serversOverride{schema.GroupResource{Group: group, Resource: resource}, strings.Split(list, ";")}
		valid := ok && named && resource != "" && !strings.ContainsAny(resource, "/#") && !strings.Contains(list, "#")
		for _, server := range o.servers {
			valid = valid && server != ""
		}
		if !valid {
			return nil, fmt.Errorf("--etcd-servers-overrides %q: give GROUP/RESOURCE#URL;URL…, such as /events#https://etcd-2:2379", text)
		}
		for _, server := range o.servers {
			if err := etcd3.ValidEndpoint(server); err != nil {
				return nil, fmt.Errorf("--etcd-servers-overrides %s: %w", name, err)
			}
		}
		for _, other := range out {
			if other.resource == o.resource {
				return nil, fmt.Errorf("--etcd-servers-overrides: %s is placed twice", o.resource)
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// maxCacheSize is the largest size of a watch cache, in events.
const maxCacheSize = 1 << 24

// parseCacheSizes reads upstream's --watch-cache-sizes.
func parseCacheSizes(sizes []string) (map[schema.GroupResource]int, error) {
	out := map[schema.GroupResource]int{}
	for _, text := range sizes {
		name, number, ok := strings.Cut(text, "#")
		size, err := strconv.Atoi(number)
		if !ok || name == "" || err != nil || size < 0 || size > maxCacheSize {
			return nil, fmt.Errorf("--watch-cache-sizes %q: give RESOURCE[.GROUP]#SIZE, with a size from 0 to %d, such as events#1000", text, maxCacheSize)
		}
		gr := schema.ParseGroupResource(name)
		if _, twice := out[gr]; twice {
			return nil, fmt.Errorf("--watch-cache-sizes: %s is given twice", gr)
		}
		out[gr] = size
	}
	return out, nil
}
