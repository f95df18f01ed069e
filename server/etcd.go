package server

import (
	"context"
	"fmt"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weir.dev/weir/server/storage/etcd3"
)

// openEtcd starts the embedded etcd or dials the external one. close ends either.
func openEtcd(ctx context.Context, c *Config) (client *clientv3.Client, close func() error, err error) {
	if len(c.EtcdServers) > 0 {
		client, err := etcd3.Dial(etcd3.DialConfig{
			Endpoints: c.EtcdServers, CAFile: c.EtcdCAFile, CertFile: c.EtcdCertFile, KeyFile: c.EtcdKeyFile, Logger: c.Logger})
		if err != nil {
			return nil, nil, fmt.Errorf("etcd at %v: %w", c.EtcdServers, err)
		}
		return client, client.Close, nil
	}
	embedded, err := etcd3.StartEmbedded(ctx, etcd3.EmbeddedConfig{
		DataDir: filepath.Join(c.DataDir, "etcd"), ListenClient: c.EmbeddedEtcdListen, UnsafeNoFsync: c.UnsafeNoFsync, Logger: c.Logger})
	if err != nil {
		return nil, nil, err
	}
	return embedded.Client(), embedded.Close, nil
}
