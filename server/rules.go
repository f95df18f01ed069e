package server

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/extension"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
)

// rulesLayer fills in the conditional defaults of a built-in kind. They are compiled when the first object of
// the kind is written: a start does not wait for those of kinds that nobody uses.
type rulesLayer struct {
	rest.NoHooks
	load func() (*extension.CELLayer, error)
}

var _ rest.Layer = rulesLayer{}

// baseName is the variable base of resources.DefaultRule, which stands for the object at the rule's Base.
var baseName = regexp.MustCompile(`\bbase\b`)

// newRulesLayer returns the layer of a subresource, "" for the object itself, nil where no rule concerns it:
// an update of the status takes nothing but that.
func newRulesLayer(engine policies.Engine, d *resources.Definition, subresource string) rest.Layer {
	var concerned []resources.DefaultRule
	for _, r := range d.Rules {
		if subresource == "" || strings.HasPrefix(r.Path, "metadata.") || subresource == rest.SubresourceStatus && strings.HasPrefix(r.Path, "status.") {
			concerned = append(concerned, r)
		}
	}
	if len(concerned) == 0 {
		return nil
	}
	return rulesLayer{load: sync.OnceValues(func() (*extension.CELLayer, error) {
		rules := &v1alpha1.CELLayer{}
		bases := map[string]string{} // variable by path
		for _, r := range concerned {
			name, ok := bases[r.Base]
			if !ok {
				name = fmt.Sprintf("base%d", len(bases))
				bases[r.Base] = name
				rules.Variables = append(rules.Variables, v1alpha1.Variable{Name: name, Expression: strings.TrimSuffix("object."+r.Base, ".")})
			}
			in := func(expression string) string { return baseName.ReplaceAllString(expression, "variables."+name) }
			rules.Defaults = append(rules.Defaults, v1alpha1.DefaultRule{
				Path: r.Path, When: in(r.When), Value: in(r.Value), Merge: r.Merge})
		}
		return extension.NewBuiltInLayer(engine, "defaults", "rules of "+d.GroupResource().String(), rules)
	})}
}

// Name implements rest.Layer.
func (rulesLayer) Name() string { return "cel[defaults]" }

// Implements implements rest.Layer.
func (rulesLayer) Implements() rest.HookSet { return rest.HookSet(rest.HookDefault) }

// Default implements rest.Hooks.
func (l rulesLayer) Default(ctx context.Context, obj *document.Document) (*document.Document, error) {
	layer, err := l.load()
	if err != nil {
		return nil, err
	}
	return layer.Default(ctx, obj)
}
