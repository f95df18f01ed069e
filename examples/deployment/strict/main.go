// Command strict is the strategy of Deployments with one more rule: an image says its version. It stands for the
// next version of a module that is in force.
package main

import (
	"strings"

	"weir.dev/weir/modules/deployment/strategy"
	weir "weir.dev/weir/sdk/go"
)

// Strict has the hooks of the first-party strategy, and adds to two of them.
type Strict struct{ strategy.Strategy }

// ValidateCreate implements weir.CreateValidator.
func (s Strict) ValidateCreate(ctx *weir.Context, d *strategy.Deployment) weir.ErrorList {
	return append(s.Strategy.ValidateCreate(ctx, d), versions(d)...)
}

// ValidateUpdate implements weir.UpdateValidator.
func (s Strict) ValidateUpdate(ctx *weir.Context, obj, old *weir.Object) weir.ErrorList {
	var d strategy.Deployment
	obj.MustDecode("", &d)
	return append(s.Strategy.ValidateUpdate(ctx, obj, old), versions(&d)...)
}

func versions(d *strategy.Deployment) (errs weir.ErrorList) {
	if d.Spec == nil {
		return nil
	}
	const path weir.Path = "spec.template.spec.containers"
	for i, c := range d.Spec.Template.Spec.Containers {
		if strings.HasSuffix(c.Image, ":latest") {
			errs = append(errs, weir.Forbidden(path.Index(i).Child("image"), "say a version, not latest"))
		}
	}
	return errs
}

func init() {
	weir.Register(weir.Info{Name: "deployment", Version: "2.0.0", Group: "apps", Resource: "deployments", Kind: "Deployment"},
		weir.For[strategy.Deployment](Strict{}))
}

func main() {}
