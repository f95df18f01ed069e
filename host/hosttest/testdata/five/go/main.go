// Command go asks for five fields of an object in one hook, and decodes all of
// it in another.
package main

import weir "weir.dev/weir/sdk/go"

// Five has the hooks.
type Five struct{}

// ValidateCreate asks for five fields.
func (Five) ValidateCreate(_ *weir.Context, object *weir.Object) (errs weir.ErrorList) {
	for _, path := range []string{"metadata.name", "metadata.labels.app", "spec.strategy.type", "spec.template.spec.containers[0].image"} {
		if object.String(path) == "" {
			errs = append(errs, weir.Required(weir.Path(path), "a text"))
		}
	}
	if object.Int("spec.replicas") > 100 {
		errs = append(errs, weir.Required("spec.replicas", "fewer"))
	}
	return errs
}

// WarningsOnCreate decodes the object.
func (Five) WarningsOnCreate(_ *weir.Context, object *weir.Object) []string {
	var all map[string]any
	if !object.MustDecode("", &all) || len(all) < 2 {
		return []string{"nothing there"}
	}
	return nil
}

func init() {
	weir.Register(weir.Info{Name: "five", Version: "1.0.0"}, weir.For[struct{}](Five{}))
}

func main() {}
