package server

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"weir.dev/weir/server/rest"
)

// nameValidator returns what judges names of a format of resources.Definition. Nil: DNS subdomain.
func nameValidator(format string) func(name string, prefix bool) []string {
	switch format {
	case "label":
		return maskTrailingDash(validation.IsDNS1123Label)
	case "label1035":
		return maskTrailingDash(validation.IsDNS1035Label)
	case "pathSegment":
		return rest.PathSegmentName
	}
	return nil
}

// maskTrailingDash lets a generateName end with a dash, which the generated suffix follows.
func maskTrailingDash(validate func(string) []string) func(string, bool) []string {
	return func(name string, prefix bool) []string {
		if prefix && strings.HasSuffix(name, "-") {
			name = name[:len(name)-1] + "a"
		}
		return validate(name)
	}
}
