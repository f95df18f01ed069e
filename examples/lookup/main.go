// Command lookup is a strategy for Deployments that reads other objects: the
// ConfigMap limits of a namespace says how many replicas its Deployments may have
// together.
package main

import (
	"errors"
	"fmt"
	"strconv"

	weir "weir.dev/weir/sdk/go"
)

// Deployment is what the strategy has to know of one, whether it is written or
// looked up: fields that are not here are not asked for.
type Deployment struct {
	Metadata struct {
		Name string `json:"name,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// Limits is the ConfigMap that has the limit.
type Limits struct {
	Data struct {
		Replicas string `json:"replicas,omitempty"`
	} `json:"data"`
}

// Strategy has the hooks.
type Strategy struct{}

// ValidateCreate says whether a new Deployment fits.
func (Strategy) ValidateCreate(ctx *weir.Context, d *Deployment) weir.ErrorList {
	return fits(ctx, d)
}

// ValidateUpdate says whether a Deployment that grows fits. One may always shrink.
func (Strategy) ValidateUpdate(ctx *weir.Context, d, old *Deployment) weir.ErrorList {
	if d.Spec.Replicas <= old.Spec.Replicas {
		return nil
	}
	return fits(ctx, d)
}

func fits(ctx *weir.Context, d *Deployment) weir.ErrorList {
	namespace := ctx.Request().Namespace
	limits := weir.Ref{Resource: "configmaps", Namespace: namespace, Name: "limits"}
	found, err := weir.Get[Limits](ctx, limits)
	if errors.Is(err, weir.ErrNotFound) {
		return nil // no limits here
	}
	if err != nil {
		panic(err) // cannot decide: the write is refused
	}
	most, err := strconv.Atoi(found.Data.Replicas)
	if err != nil {
		return weir.ErrorList{weir.Forbidden("spec.replicas", "the ConfigMap limits has no number in data.replicas")}
	}
	others, err := weir.List[Deployment](ctx, weir.Query{Group: "apps", Resource: "deployments", Namespace: namespace})
	if err != nil {
		panic(err)
	}
	sum := d.Spec.Replicas
	for _, other := range others.Items {
		if other.Metadata.Name != d.Metadata.Name {
			sum += other.Spec.Replicas
		}
	}
	if sum <= most && !others.More {
		return nil
	}
	excess := fmt.Sprintf("%d replicas in the namespace with this, at most %d by the ConfigMap limits", sum, most)
	// Whoever has the verb exceed on the limits may.
	allowed, err := weir.Authorize(ctx, weir.Access{Verb: "exceed", Resource: limits.Resource, Namespace: namespace, Name: limits.Name})
	if err != nil {
		panic(err)
	}
	if allowed {
		ctx.Warn(excess)
		return nil
	}
	return weir.ErrorList{weir.Forbidden("spec.replicas", excess)}
}

func init() {
	weir.Register(weir.Info{
		Name: "replica-limits", Version: "1.0.0", Group: "apps", Resource: "deployments", Kind: "Deployment",
		Capabilities: []string{"lookup:configmaps", "lookup:deployments.apps", "authorize"},
	}, weir.For[Deployment](Strategy{}))
}

func main() {}
