package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"weir.dev/weir/server"
)

func TestStorageFlags(t *testing.T) {
	tests := []struct {
		name, args string
		// want is in the error, told in the log.
		want, told string
		check      func(*server.StorageConfig) bool
	}{
		{name: "none", check: func(c *server.StorageConfig) bool {
			return c.WatchCacheEventBytes == server.DefaultWatchCacheEventBytes && c.WatchCachesEventBytes == server.DefaultWatchCachesEventBytes &&
				!c.DisableWatchCache && c.CompactionInterval == server.DefaultCompactionInterval && c.EventTTL == time.Hour && c.ConsistencyCheckInterval == 0
		}},
		{name: "never", args: "--etcd-compaction-interval=0 --watch-cache=false", check: func(c *server.StorageConfig) bool {
			return c.CompactionInterval < 0 && c.DisableWatchCache
		}},
		{name: "a duration", args: "--watch-cache-idle-timeout 3s", check: func(c *server.StorageConfig) bool {
			return c.WatchCacheIdleTimeout == 3*time.Second
		}},
		{name: "events", args: "--event-ttl 90s", check: func(c *server.StorageConfig) bool { return c.EventTTL == 90*time.Second }},
		{name: "events for ever", args: "--event-ttl=0", check: func(c *server.StorageConfig) bool { return c.EventTTL < 0 }},
		{name: "memory", args: "--watch-cache-event-memory 16 --watch-cache-event-memory-total=32", check: func(c *server.StorageConfig) bool {
			return c.WatchCacheEventBytes == 16<<20 && c.WatchCachesEventBytes == 32<<20
		}},
		{name: "comparisons", args: "--consistency-check-interval=5s", check: func(c *server.StorageConfig) bool { return c.ConsistencyCheckInterval == 5*time.Second }},
		{name: "no comparisons", args: "--consistency-check-interval=0", check: func(c *server.StorageConfig) bool { return c.ConsistencyCheckInterval < 0 }},
		{name: "below zero", args: "--consistency-check-interval=-1s", want: "--consistency-check-interval -1s: give a positive duration"},
		{name: "another storage", args: "--storage-backend=files", want: `--storage-backend "files"`},
		{name: "without a value", args: "--enable-garbage-collector --watch-cache=false", told: "--enable-garbage-collector", check: func(c *server.StorageConfig) bool {
			return c.DisableWatchCache
		}},
		{name: "not honoured", args: "--encryption-provider-config-automatic-reload=false", told: "always read again"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var config server.StorageConfig
			flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
			storage := addStorageFlags(flags, &config)
			if err := flags.Parse(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			err := storage.complete(flags, slog.New(slog.NewTextHandler(&log, nil)))
			switch {
			case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			case !strings.Contains(log.String(), tc.told) || tc.told == "" && log.Len() > 0:
				t.Errorf("log is %q, want %q", log.String(), tc.told)
			case tc.check != nil && !tc.check(&config):
				t.Errorf("got %+v", config)
			}
		})
	}
}

// The help of the quota names its bounds, which the server holds it to.
func TestQuotaHelp(t *testing.T) {
	out, _, err := weir(t, "serve", "--help")
	if err != nil {
		t.Fatal(err)
	}
	_, usage, _ := strings.Cut(out, "--embedded-etcd-quota-backend-bytes ")
	if usage, _, _ = strings.Cut(usage, "\n"); !strings.Contains(usage, "from 16 MiB to 1 TiB") {
		t.Errorf("got %q", usage)
	}
	for flag, want := range map[string]string{
		"--embedded-etcd-quota-backend-bytes=16777215":      "give 16777216 bytes at least",
		"--embedded-etcd-quota-backend-bytes=1099511627777": "1099511627776 are possible at most",
	} {
		if _, _, err := weir(t, "serve", "--data-dir", t.TempDir(), "--secure-port", "0", flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", flag, err, want)
		}
	}
}
