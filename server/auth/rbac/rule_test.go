package rbac

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// rule reads "verbs groups resources [names]" or "verbs urls", lists joined by commas, - for the empty string.
func rule(text string) rbacv1.PolicyRule {
	list := func(s string) []string {
		out := strings.Split(s, ",")
		for i, v := range out {
			if v == "-" {
				out[i] = ""
			}
		}
		return out
	}
	parts := strings.Fields(text)
	if len(parts) == 2 {
		return rbacv1.PolicyRule{Verbs: list(parts[0]), NonResourceURLs: list(parts[1])}
	}
	out := rbacv1.PolicyRule{Verbs: list(parts[0]), APIGroups: list(parts[1]), Resources: list(parts[2])}
	if len(parts) > 3 {
		out.ResourceNames = list(parts[3])
	}
	return out
}

// ask reads "verb /path" or "verb group resource[/subresource] [name]".
func ask(text string) authorizer.AttributesRecord {
	parts := strings.Fields(text)
	if len(parts) == 2 {
		return authorizer.AttributesRecord{Verb: parts[0], Path: parts[1]}
	}
	out := authorizer.AttributesRecord{Verb: parts[0], ResourceRequest: true}
	if parts[1] != "-" {
		out.APIGroup = parts[1]
	}
	out.Resource, out.Subresource, _ = strings.Cut(parts[2], "/")
	if len(parts) > 3 {
		out.Name = parts[3]
	}
	return out
}

// The cases of upstream's TestRuleMatches and TestSubresource, and some more.
func TestAllows(t *testing.T) {
	tests := []struct {
		name, rule string
		yes, no    []string
	}{
		{"star verb", "* g1 r1",
			[]string{"v1 g1 r1", "v2 g1 r1"}, []string{"v1 g2 r1", "v1 g1 r2", "v2 g2 r2", "v1 /g1"}},
		{"star group", "v1 * r1",
			[]string{"v1 g1 r1", "v1 g2 r1", "v1 - r1"}, []string{"v1 g1 r2", "v2 g1 r1"}},
		{"star resource", "v1 g1 *",
			[]string{"v1 g1 r1", "v1 g1 r2", "v1 g1 r1/status"}, []string{"v1 g2 r1", "v2 g1 r1"}},
		{"tuples", "v1,v2 g1,g2 r1,r2",
			[]string{"v1 g1 r1", "v1 g1 r2", "v1 g2 r1", "v2 g2 r2", "v2 g1 r1"}, []string{"v3 g1 r1", "v1 g3 r1", "v1 g1 r3"}},
		{"the core group", "get - pods",
			[]string{"get - pods"}, []string{"get apps pods"}},
		{"a subresource", "* * r1/s1",
			[]string{"v1 g1 r1/s1", "v2 g2 r1/s1"}, []string{"v1 g1 r1/s2", "v1 g1 r2/s1", "v1 g1 r1"}},
		{"a resource is not its subresources", "* * pods",
			[]string{"get - pods"}, []string{"get - pods/status", "get - pods/log"}},
		{"a subresource of everything", "* * */scale",
			[]string{"get apps deployments/scale", "get - anything/scale"}, []string{"get - pods", "get - pods/status", "get - scale", "get - pods/xscale"}},
		{"a star elsewhere stands for itself", "* * pods/*",
			[]string{"get - pods/*"}, []string{"get - pods/status", "get - pods"}},
		{"names", "get,list - configmaps a,b",
			[]string{"get - configmaps a", "get - configmaps b"}, []string{"get - configmaps c", "list - configmaps", "get - secrets a"}},
		{"any path", "v1 *",
			[]string{"v1 /foo", "v1 /foo/bar", "v1 /"}, []string{"v2 /foo", "v1 g r"}},
		{"paths below", "v1 /foo/*",
			[]string{"v1 /foo/bar", "v1 /foo/bar/one", "v1 /foo/"}, []string{"v1 /foo", "v1 /notfoo", "v1 /notfoo/bar"}},
		{"a prefix of paths", "v1 /foo*",
			[]string{"v1 /foo", "v1 /foobar", "v1 /foo/bar"}, []string{"v1 /fo"}},
		{"exact paths", "* /foo,/foo/bar/one",
			[]string{"v1 /foo", "v2 /foo/bar/one"}, []string{"v1 /foo/bar", "v1 /foo/baz/one", "v1 /foo/"}},
		{"a star within a path stands for itself", "get /a/*/c",
			[]string{"get /a/*/c"}, []string{"get /a/b/c"}},
		{"everything", "* * *",
			[]string{"get - pods", "x y z/w name"}, []string{"get /healthz"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := rule(tc.rule)
			for _, q := range tc.yes {
				if !Allows(&r, ask(q)) {
					t.Errorf("%q does not allow %q", tc.rule, q)
				}
			}
			for _, q := range tc.no {
				if Allows(&r, ask(q)) {
					t.Errorf("%q allows %q", tc.rule, q)
				}
			}
		})
	}
}
