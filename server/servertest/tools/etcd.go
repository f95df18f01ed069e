package tools

import (
	"context"
	"embed"
)

// EtcdVersion is the version of the etcd that [BuildEtcd] builds.
const EtcdVersion = "v3.7.3"

// etcdFiles are a module with nothing but etcd.
//
//go:embed module-etcd/*.txt
var etcdFiles embed.FS

// BuildEtcd builds etcd as [BuildKubectl] builds kubectl.
func BuildEtcd(ctx context.Context) (string, error) {
	return build(ctx, tool{name: "etcd", version: EtcdVersion, files: etcdFiles})
}
