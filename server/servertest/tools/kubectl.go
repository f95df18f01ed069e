package tools

import (
	"context"
	"embed"
)

// KubectlVersion is the version of the kubectl that [BuildKubectl] builds.
const KubectlVersion = "v1.37.2"

// kubectlFiles are a module with nothing but kubectl.
//
//go:embed module-kubectl/*.txt
var kubectlFiles embed.FS

// BuildKubectl builds kubectl from its modules, once for each user: the binary is kept in the
// user's cache directory and used again. Builds at the same time, of other processes too, wait for each
// other. The first one takes a minute or two, and needs the modules.
func BuildKubectl(ctx context.Context) (string, error) {
	return build(ctx, tool{
		name: "kubectl", version: KubectlVersion, files: kubectlFiles,
		flags: "-X k8s.io/component-base/version.gitVersion=" + KubectlVersion + " -X k8s.io/client-go/pkg/version.gitVersion=" + KubectlVersion,
	})
}
