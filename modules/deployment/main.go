// Command deployment is the strategy of apps/v1 Deployment as a module. It is
// built with `weir module build modules/deployment`.
package main

import (
	"weir.dev/weir/modules/deployment/strategy"
	weir "weir.dev/weir/sdk/go"
)

func init() {
	weir.Register(weir.Info{
		Name: "deployment", Version: "1.0.0",
		Group: "apps", Resource: "deployments", Kind: "Deployment",
	}, weir.For[strategy.Deployment](strategy.Strategy{}))
}

func main() {}
