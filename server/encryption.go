package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
)

// openEncryption reads the file that says what is encrypted; nil: nothing is.
func openEncryption(ctx context.Context, c *Config, registry *prometheus.Registry) (*encryption.Encryption, error) {
	if c.EncryptionProviderConfig == "" {
		return nil, nil
	}
	return encryption.Open(ctx, encryption.Config{
		File: c.EncryptionProviderConfig, Registerer: registry, Logger: c.Logger, Intervals: c.encryptionIntervals})
}

// encryptionChecks are those of /healthz and /readyz. They are not in /livez: to start again would make no KMS plugin
// well and no file valid, and lose the keys that are known. A file that is not in force is told of and fails nothing.
func encryptionChecks(e *encryption.Encryption) []check {
	if e == nil {
		return nil
	}
	return []check{
		{"kms-providers", e.CheckKMS},
		{"encryption-config", func(ctx context.Context) error {
			if err := e.CheckConfig(ctx); err != nil {
				return &warning{err}
			}
			return nil
		}},
	}
}

// gatherer gathers the metrics of a server.
func (s *Server) gatherer() prometheus.Gatherer {
	all := prometheus.Gatherers{s.registry}
	if s.encryption != nil {
		all = append(all, encryption.KMSMetrics())
	}
	if s.audit != nil {
		all = append(all, audit.Metrics())
	}
	return all
}

// resourcesByKey returns a function that tells of a key below prefix, which has a slash at its end, whose row is there.
func resourcesByKey(prefix string) (func(key string) schema.GroupResource, error) {
	set, err := resources.Builtin()
	if err != nil {
		return nil, err
	}
	byPrefix := map[string]schema.GroupResource{}
	for _, d := range set.Definitions() {
		byPrefix[d.StoragePrefix] = d.GroupResource()
	}
	return func(key string) schema.GroupResource {
		first, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if gr, ok := byPrefix[first]; ok {
			return gr
		}
		second, _, _ := strings.Cut(rest, "/")
		if gr, ok := byPrefix[first+"/"+second]; ok {
			return gr
		}
		return schema.GroupResource{Group: first, Resource: second} // a custom resource
	}, nil
}

// lineageTransformer lets a row that cannot be read pass as an object without anything, so that it does not end the
// stream of all. What cannot be read only now does end it.
type lineageTransformer struct {
	value.Transformer
	logger *slog.Logger
	warned atomic.Bool
}

var _ value.Transformer = (*lineageTransformer)(nil)

// TransformFromStorage implements value.Transformer.
func (t *lineageTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	out, stale, err := t.Transformer.TransformFromStorage(ctx, data, dataCtx)
	if unavailable := (*value.UnavailableError)(nil); err == nil || errors.As(err, &unavailable) || ctx.Err() != nil {
		return out, stale, err
	}
	level := slog.LevelDebug
	if !t.warned.Swap(true) {
		level = slog.LevelWarn // the first stands for all: there may be as many as rows
	}
	t.logger.Log(ctx, level, "row cannot be read; the garbage collector leaves it out",
		"key", string(dataCtx.AuthenticatedData()), "error", err)
	return []byte("{}"), false, nil
}
