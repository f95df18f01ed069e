package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"weir.dev/weir/server"
)

// storageFlags are the flags of `weir serve` about etcd and the caches, with kube-apiserver's names and meanings.
type storageFlags struct {
	config     *server.StorageConfig
	backend    string
	watchCache bool
	// never are the durations of which zero means never.
	never map[string]*time.Duration
}

// The flags among the unhonoured that need no value.
const (
	garbageFlag = "enable-garbage-collector"
	reloadFlag  = "encryption-provider-config-automatic-reload"
)

// checkFlag has a default that gives way to what comparisons cost.
const checkFlag = "consistency-check-interval"

// unhonoured are kube-apiserver's flags about storage that change nothing here, and why.
func unhonoured() map[string]string {
	return map[string]string{
		"default-watch-cache-size":     "caches are sized by what happens; see --watch-cache-sizes",
		"etcd-db-metric-poll-interval": "the size of the database is asked for when metrics are read",
		"storage-media-type":           "objects are stored as JSON",
		"delete-collection-workers":    "a collection is deleted by one worker",
		garbageFlag:                    "the garbage collector always runs",
		reloadFlag:                     "the encryption configuration is always read again when it changes",
	}
}

func addStorageFlags(flags *pflag.FlagSet, config *server.StorageConfig) *storageFlags {
	f := &storageFlags{config: config, watchCache: true, never: map[string]*time.Duration{}}
	flags.StringVar(&f.backend, "storage-backend", "etcd3", "where objects are stored: etcd3")
	flags.StringSliceVar(&config.ServersOverrides, "etcd-servers-overrides", nil,
		"resources in other etcd clusters, comma separated: group/resource#url;url…, e.g. /events#https://etcd-2:2379;https://etcd-3:2379")
	for _, d := range []struct {
		name, usage string
		to          *time.Duration
		standard    time.Duration
	}{
		{"etcd-compaction-interval", "how often, and to which age, etcd's history is dropped; 0: not by this server", &config.CompactionInterval, server.DefaultCompactionInterval},
		{"etcd-count-metric-poll-period", "how often the objects of each resource are counted for metrics; 0: never", &config.CountPollPeriod, server.DefaultCountPollPeriod},
		{"event-ttl", "how long an Event is kept after its last write; 0: for ever", &config.EventTTL, server.DefaultEventTTL},
		{"watch-cache-idle-timeout", "after how long without any use a resource's cache is stopped and its memory freed; 0: never", &config.WatchCacheIdleTimeout, server.DefaultWatchCacheIdleTimeout},
		{checkFlag, "time between comparisons of each cache with etcd, byte by byte, fewer while nothing is written; not given: at least this, and 200 times what the last one took, up to 5 minutes; 0: never", &config.ConsistencyCheckInterval, server.DefaultConsistencyCheckInterval},
	} {
		flags.DurationVar(d.to, d.name, d.standard, d.usage)
		f.never[d.name] = d.to
	}
	flags.DurationVar(&config.HealthcheckTimeout, "etcd-healthcheck-timeout", server.DefaultEtcdCheckTimeout, "bound of the health check of etcd")
	flags.DurationVar(&config.ReadycheckTimeout, "etcd-readycheck-timeout", server.DefaultEtcdCheckTimeout, "bound of the readiness check of etcd")
	flags.Int64Var(&config.LeaseReuseSeconds, "lease-reuse-duration-seconds", int64(server.DefaultLeaseReuse/time.Second), "for how long objects with a TTL share one lease of etcd")
	flags.BoolVar(&f.watchCache, "watch-cache", true, "serve reads and watches from memory; false: from etcd")
	flags.StringSliceVar(&config.WatchCacheSizes, "watch-cache-sizes", nil,
		"how many events the cache of a resource remembers at most, comma separated: resource[.group]#size; 0: that resource is served from etcd")
	config.WatchCacheEventBytes, config.WatchCachesEventBytes = server.DefaultWatchCacheEventBytes, server.DefaultWatchCachesEventBytes
	flags.Var((*mebibytes)(&config.WatchCacheEventBytes), "watch-cache-event-memory",
		"MiB that the events which the cache of a resource remembers may keep in memory; the oldest are forgotten, but for 100")
	flags.Var((*mebibytes)(&config.WatchCachesEventBytes), "watch-cache-event-memory-total",
		"the same for the caches of all resources; the one that keeps most forgets first")
	for name := range unhonoured() {
		flags.String(name, "", "accepted for kube-apiserver's sake")
	}
	for _, name := range []string{garbageFlag, reloadFlag} {
		flags.Lookup(name).NoOptDefVal = "true"
	}
	return f
}

// complete checks what was given and says what is not honoured.
func (f *storageFlags) complete(flags *pflag.FlagSet, logger *slog.Logger) error {
	if f.backend != "etcd3" && f.backend != "" {
		return fmt.Errorf("--storage-backend %q: there is etcd3 only", f.backend)
	}
	f.config.DisableWatchCache = !f.watchCache
	for name, d := range f.never {
		switch {
		case *d < 0:
			return fmt.Errorf("--%s %s: give a positive duration, or 0 for never", name, *d)
		case *d == 0:
			*d = -1
		}
	}
	if !flags.Changed(checkFlag) {
		f.config.ConsistencyCheckInterval = 0
	}
	for name, why := range unhonoured() {
		if flags.Changed(name) {
			logger.Warn("flag is accepted but changes nothing", "flag", "--"+name, "why", why)
		}
	}
	return nil
}
