package tools

import (
	"context"
	"embed"
)

// H2specVersion is the version of the h2spec that [BuildH2spec] builds.
const H2specVersion = "v2.2.1"

// h2specFiles are a module with nothing but h2spec, and the flags that tests need.
//
//go:embed module-h2spec/*.txt
var h2specFiles embed.FS

// BuildH2spec builds h2spec as [BuildKubectl] builds kubectl: what tries a server against RFC 9113 and RFC 7541. It
// takes -port, -timeout and -report, and sections.
func BuildH2spec(ctx context.Context) (string, error) {
	return build(ctx, tool{name: "h2spec", version: H2specVersion, files: h2specFiles})
}
