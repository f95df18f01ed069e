package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// source is one Go package of API types.
type source struct {
	pkg   string // import path
	model string // prefix of its model names
	group string // API group, for the kinds it holds; "-" when it holds none of its own
}

// sources lists the packages whose types are published. To publish another
// API, add its package here.
var sources = []source{
	{"k8s.io/api/core/v1", "io.k8s.api.core.v1", ""},
	{"k8s.io/api/apps/v1", "io.k8s.api.apps.v1", "apps"},
	{"k8s.io/api/batch/v1", "io.k8s.api.batch.v1", "batch"},
	{"k8s.io/api/autoscaling/v1", "io.k8s.api.autoscaling.v1", "autoscaling"},
	{"k8s.io/api/autoscaling/v2", "io.k8s.api.autoscaling.v2", "autoscaling"},
	{"k8s.io/api/policy/v1", "io.k8s.api.policy.v1", "policy"},
	{"k8s.io/api/rbac/v1", "io.k8s.api.rbac.v1", "rbac.authorization.k8s.io"},
	{"k8s.io/api/coordination/v1", "io.k8s.api.coordination.v1", "coordination.k8s.io"},
	{"k8s.io/api/networking/v1", "io.k8s.api.networking.v1", "networking.k8s.io"},
	{"k8s.io/api/scheduling/v1", "io.k8s.api.scheduling.v1", "scheduling.k8s.io"},
	{"k8s.io/api/scheduling/v1alpha3", "io.k8s.api.scheduling.v1alpha3", "-"}, // parts of batch/v1
	{"k8s.io/api/discovery/v1", "io.k8s.api.discovery.v1", "discovery.k8s.io"},
	{"k8s.io/api/storage/v1", "io.k8s.api.storage.v1", "storage.k8s.io"},
	{"k8s.io/api/node/v1", "io.k8s.api.node.v1", "node.k8s.io"},
	{"k8s.io/api/certificates/v1", "io.k8s.api.certificates.v1", "certificates.k8s.io"},
	{"k8s.io/api/admissionregistration/v1", "io.k8s.api.admissionregistration.v1", "admissionregistration.k8s.io"},
	{"k8s.io/api/admissionregistration/v1beta1", "io.k8s.api.admissionregistration.v1beta1", "admissionregistration.k8s.io"},
	{"k8s.io/api/authentication/v1", "io.k8s.api.authentication.v1", "authentication.k8s.io"},
	{"k8s.io/api/authorization/v1", "io.k8s.api.authorization.v1", "authorization.k8s.io"},
	{"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1", "apiextensions.k8s.io"},
	{"weir.dev/weir/server/apis/v1alpha1", "dev.weir.v1alpha1", "weir.dev"},
	{"k8s.io/apimachinery/pkg/apis/meta/v1", "io.k8s.apimachinery.pkg.apis.meta.v1", "-"},
	{"k8s.io/apimachinery/pkg/runtime", "io.k8s.apimachinery.pkg.runtime", "-"},
	{"k8s.io/apimachinery/pkg/util/intstr", "io.k8s.apimachinery.pkg.util.intstr", "-"},
	{"k8s.io/apimachinery/pkg/api/resource", "io.k8s.apimachinery.pkg.api.resource", "-"},
}

//go:embed dump.go.txt
var dumpProgram string

var moduleLine = regexp.MustCompile(`(?m)^module .*$`)

// definitions builds, in the scratch module work, a program out of the code
// that openapi-gen writes and runs it: openapi-gen's only output is Go. The
// scratch module has this module's requirements, so the types are those that
// the server is built with.
func definitions(ctx context.Context, root, work string) (map[string]any, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, err
	}
	own := fmt.Sprintf("module dump\n\nrequire weir.dev/weir v0.0.0\n\nreplace weir.dev/weir => %s", root)
	files := map[string][]byte{
		"go.mod":        moduleLine.ReplaceAll(mod, []byte(own)),
		"go.sum":        sum,
		"main.go":       []byte(dumpProgram),
		"header.txt":    nil,
		"openapi/.keep": nil,
	}
	if err := os.Mkdir(filepath.Join(work, "openapi"), 0o755); err != nil {
		return nil, err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o644); err != nil {
			return nil, err
		}
	}
	version, err := command(ctx, root, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kube-openapi")
	if err != nil {
		return nil, err
	}
	args := []string{
		"run", "k8s.io/kube-openapi/cmd/openapi-gen@" + strings.TrimSpace(version),
		"--go-header-file", "header.txt",
		"--output-dir", "openapi", "--output-pkg", "dump/openapi", "--output-file", "zz_generated.go",
		"--report-filename", "violations.txt",
	}
	for _, s := range sources {
		args = append(args, s.pkg)
	}
	if _, err := command(ctx, work, "go", args...); err != nil {
		return nil, err
	}
	out, err := command(ctx, work, "go", "run", ".")
	if err != nil {
		return nil, err
	}
	dump := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(out))
	dec.UseNumber()
	if err := dec.Decode(&dump); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	return dump, nil
}
