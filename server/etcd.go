package server

import (
	"context"
	"fmt"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage/etcd3"
)

// etcd is the embedded etcd or a connection to an external one.
type etcd struct {
	client *clientv3.Client
	// done is closed when the embedded one ends by itself; nil when there is none.
	done  <-chan struct{}
	close func() error
}

// openEtcd starts the embedded etcd or dials the external one.
func openEtcd(ctx context.Context, c *Config) (*etcd, error) {
	if len(c.EtcdServers) > 0 {
		client, err := etcd3.Dial(etcd3.DialConfig{
			Endpoints: c.EtcdServers, CAFile: c.EtcdCAFile, CertFile: c.EtcdCertFile, KeyFile: c.EtcdKeyFile, Logger: c.Logger})
		if err != nil {
			return nil, fmt.Errorf("etcd at %v: %w", c.EtcdServers, err)
		}
		return &etcd{client: client, close: client.Close}, nil
	}
	embedded, err := etcd3.StartEmbedded(ctx, etcd3.EmbeddedConfig{
		DataDir: filepath.Join(c.DataDir, "etcd"), ListenClient: c.EmbeddedEtcdListen, UnsafeNoFsync: c.UnsafeNoFsync, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	return &etcd{client: embedded.Client(), done: embedded.Done(), close: embedded.Close}, nil
}
