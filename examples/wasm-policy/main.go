// Command wasm-policy is an admission policy for Ingresses, in Go: their hosts are below
// the domain of their namespace, and their class is filled in.
package main

import (
	"strings"

	weir "weir.dev/weir/sdk/go"
)

// Ingress is what the policy has to know of one. All else is kept.
type Ingress struct {
	Spec struct {
		Class string `json:"ingressClassName,omitempty"`
		Rules []Rule `json:"rules,omitempty"`
	} `json:"spec"`
}

// Rule is of one host.
type Rule struct {
	Host string `json:"host,omitempty"`
}

// Policy has the hooks, and the settings of the Policy that calls the module.
type Policy struct {
	// Class of an Ingress that names none, "default" if there are no settings.
	Class string `json:"class,omitempty"`
}

// Configure reads the settings, once.
func (p *Policy) Configure(ctx *weir.Context) weir.ErrorList {
	if errs := ctx.Settings(p); errs != nil {
		return errs
	}
	if p.Class == "" {
		p.Class = "default"
	}
	if p.Class != strings.ToLower(p.Class) {
		return weir.ErrorList{weir.Invalid("class", p.Class, "must be in lower case")}
	}
	return nil
}

// AdmitMutate fills in the class.
func (p *Policy) AdmitMutate(_ *weir.Context, ingress, _ *Ingress) error {
	if ingress != nil && ingress.Spec.Class == "" {
		ingress.Spec.Class = p.Class
	}
	return nil
}

// AdmitValidate judges the hosts by the params of the binding.
func (p *Policy) AdmitValidate(ctx *weir.Context, ingress, _ *Ingress) error {
	if ingress == nil {
		return nil // a deletion
	}
	domain := ctx.Params().String("data.domain")
	if domain == "" {
		return weir.Deny("this namespace has no domain")
	}
	var errs weir.ErrorList
	rules := weir.Path("spec").Child("rules")
	for i, rule := range ingress.Spec.Rules {
		if rule.Host != domain && !strings.HasSuffix(rule.Host, "."+domain) {
			errs = append(errs, weir.Invalid(rules.Index(i).Child("host"), rule.Host, "must be below "+domain))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

func init() {
	weir.Register(weir.Info{Name: "ingress-hosts", Version: "1.0.0", Group: "networking.k8s.io", Resource: "ingresses", Kind: "Ingress"},
		weir.For[Ingress](&Policy{}))
}

func main() {}
