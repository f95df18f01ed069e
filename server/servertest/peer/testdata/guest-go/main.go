// Command guest-go is a policy for widgets: what a webhook would look at.
package main

import (
	"strings"

	weir "weir.dev/weir/sdk/go"
)

// Policy has the hook.
type Policy struct{}

// AdmitValidate reads five fields.
func (Policy) AdmitValidate(_ *weir.Context, obj, _ *weir.Object) error {
	switch {
	case obj == nil:
		return nil
	case obj.Int("spec.replicas") > 500:
		return weir.Deny("too many replicas")
	case obj.Bool("spec.paused"):
		return weir.Deny("it is paused")
	case !strings.HasPrefix(obj.String("spec.image"), "registry.example/"):
		return weir.Deny("the image is of another registry")
	case obj.String("spec.title") == "":
		return weir.Deny("it has no title")
	case obj.String("metadata.labels.app") == "":
		return weir.Deny("it is of no app")
	}
	return nil
}

func init() {
	weir.Register(weir.Info{Name: "guest-go", Version: "1.0.0"}, weir.For[weir.Object](Policy{}))
}

func main() {}
