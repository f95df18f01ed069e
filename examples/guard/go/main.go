// Command go is a policy for Deployments: they have certain labels, which do
// not change, and not too many replicas.
package main

import (
	"fmt"
	"strings"

	weir "weir.dev/weir/sdk/go"
)

// Guard has the hooks, and its settings.
type Guard struct {
	Labels      []string `json:"labels,omitempty"`
	MaxReplicas *int64   `json:"maxReplicas,omitempty"`
}

// Configure reads the settings, once.
func (g *Guard) Configure(ctx *weir.Context) weir.ErrorList {
	if errs := ctx.Settings(g); errs != nil {
		return errs
	}
	if g.Labels == nil {
		g.Labels = []string{"team"}
	}
	if g.MaxReplicas == nil {
		most := int64(10)
		g.MaxReplicas = &most
	}
	if *g.MaxReplicas < 1 {
		return weir.ErrorList{weir.Invalid("maxReplicas", *g.MaxReplicas, "must be at least 1")}
	}
	return nil
}

// Default keeps a short history.
func (g *Guard) Default(_ *weir.Context, deployment *weir.Object) {
	if !deployment.Has("spec.revisionHistoryLimit") {
		deployment.Set("spec.revisionHistoryLimit", 3)
	}
}

// ValidateCreate says what is wrong with a new Deployment.
func (g *Guard) ValidateCreate(_ *weir.Context, deployment *weir.Object) (errs weir.ErrorList) {
	labels := labelsOf(deployment)
	for _, label := range g.Labels {
		if labels[label] == "" {
			errs = append(errs, weir.Required(weir.Path("metadata.labels").Key(label), "every Deployment has one"))
		}
	}
	if n := deployment.Int("spec.replicas"); n > *g.MaxReplicas {
		errs = append(errs, weir.Invalid("spec.replicas", n, fmt.Sprintf("must be at most %d", *g.MaxReplicas)))
	}
	return errs
}

// ValidateUpdate says what is wrong with a change.
func (g *Guard) ValidateUpdate(ctx *weir.Context, deployment, old *weir.Object) weir.ErrorList {
	errs := g.ValidateCreate(ctx, deployment)
	labels, before := labelsOf(deployment), labelsOf(old)
	for _, label := range g.Labels {
		if had, ok := before[label]; ok && labels[label] != had {
			errs = append(errs, weir.Forbidden(weir.Path("metadata.labels").Key(label), "does not change once it is set"))
		}
	}
	return errs
}

// WarningsOnCreate warns of tags that move.
func (g *Guard) WarningsOnCreate(_ *weir.Context, deployment *weir.Object) (warnings []string) {
	for i, image := range deployment.Strings("spec.template.spec.containers[*].image") {
		if strings.HasSuffix(image, ":latest") {
			warnings = append(warnings, fmt.Sprintf("spec.template.spec.containers[%d].image: latest is another image tomorrow", i))
		}
	}
	return warnings
}

func labelsOf(deployment *weir.Object) (labels map[string]string) {
	deployment.MustDecode("metadata.labels", &labels)
	return labels
}

func init() {
	weir.Register(weir.Info{Name: "guard", Version: "1.0.0", Group: "apps", Resource: "deployments", Kind: "Deployment"},
		weir.For[struct{}](&Guard{}))
}

func main() {}
