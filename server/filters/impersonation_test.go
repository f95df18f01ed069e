package filters

import (
	"net/http"
	"slices"
	"testing"
)

func TestImpersonatedGroups(t *testing.T) {
	tests := []struct {
		name, user string
		groups     []string
		want       []string
	}{
		{"a user", "carol", nil, []string{"system:authenticated"}},
		{"a user in a group", "carol", []string{"devs"}, []string{"devs", "system:authenticated"}},
		{"no group twice", "carol", []string{"system:authenticated"}, []string{"system:authenticated"}},
		{"a user who is not authenticated", "carol", []string{"system:unauthenticated"}, []string{"system:unauthenticated"}},
		{"anonymous", "system:anonymous", nil, []string{"system:unauthenticated"}},
		{"anonymous, said in full", "system:anonymous", []string{"system:unauthenticated"}, []string{"system:unauthenticated"}},
		{"a service account", "system:serviceaccount:ns:sa", nil, []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			header := http.Header{}
			header.Set("Impersonate-User", tc.user)
			for _, g := range tc.groups {
				header.Add("Impersonate-Group", g)
			}
			got, _, err := impersonated(header)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Groups, tc.want) {
				t.Errorf("groups %q, want %q", got.Groups, tc.want)
			}
			if have := header.Values("Impersonate-Group"); !slices.Equal(have, tc.groups) {
				t.Errorf("the header is now %q", have)
			}
		})
	}
}
