package tools

import (
	"context"
	"embed"
)

// KubeAPIServerVersion is the version of the kube-apiserver that [BuildKubeAPIServer] builds.
const KubeAPIServerVersion = "v1.37.2"

// kubeAPIServerFiles are a module with nothing but kube-apiserver.
//
//go:embed module-kube-apiserver/*.txt
var kubeAPIServerFiles embed.FS

// BuildKubeAPIServer builds kube-apiserver as [BuildKubectl] builds kubectl. The first build takes some ten minutes of
// two cores.
func BuildKubeAPIServer(ctx context.Context) (string, error) {
	return build(ctx, tool{
		name: "kube-apiserver", version: KubeAPIServerVersion, files: kubeAPIServerFiles,
		flags: "-X k8s.io/component-base/version.gitVersion=" + KubeAPIServerVersion + " -X k8s.io/client-go/pkg/version.gitVersion=" + KubeAPIServerVersion,
	})
}
