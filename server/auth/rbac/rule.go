package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Allows reports whether rule allows what a asks.
func Allows(rule *rbacv1.PolicyRule, a authorizer.Attributes) bool {
	if !matches(rule.Verbs, rbacv1.VerbAll, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return matchesPath(rule.NonResourceURLs, a.GetPath())
	}
	return matches(rule.APIGroups, rbacv1.APIGroupAll, a.GetAPIGroup()) &&
		matchesResource(rule.Resources, a.GetResource(), a.GetSubresource()) &&
		matchesName(rule.ResourceNames, a.GetName())
}

func matches(list []string, all, wanted string) bool {
	for _, v := range list {
		if v == wanted || v == all {
			return true
		}
	}
	return false
}

// matchesResource: `*` is everything, `pods` is pods alone, `pods/log` its subresource, `*/scale` that
// subresource of everything.
func matchesResource(list []string, resource, subresource string) bool {
	for _, v := range list {
		if v == rbacv1.ResourceAll {
			return true
		}
		if subresource == "" {
			if v == resource {
				return true
			}
			continue
		}
		parent, child, ok := strings.Cut(v, "/")
		if ok && child == subresource && (parent == resource || parent == "*") {
			return true
		}
	}
	return false
}

// matchesName: no names are all names, the empty one of a list or create included.
func matchesName(list []string, name string) bool {
	if len(list) == 0 {
		return true
	}
	for _, v := range list {
		if v == name {
			return true
		}
	}
	return false
}

// matchesPath: `*` is everything, and a trailing star stands for any rest.
func matchesPath(list []string, path string) bool {
	for _, v := range list {
		if v == rbacv1.NonResourceAll || v == path {
			return true
		}
		if strings.HasSuffix(v, "*") && strings.HasPrefix(path, strings.TrimRight(v, "*")) {
			return true
		}
	}
	return false
}
