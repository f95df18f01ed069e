package abi_test

import (
	"slices"
	"testing"

	"weir.dev/weir/abi"
)

func TestCapabilities(t *testing.T) {
	tests := []struct {
		text         string
		asked, grant bool // whether it may be
	}{
		{"authorize", true, true},
		{"lookup:configmaps", true, true},
		{"lookup:deployments.apps", true, true},
		{"lookup:ingresses.networking.k8s.io", true, true},
		{"lookup:*", false, true},
		{"lookup:*.apps", false, true},
		{"lookup:*.*", false, false},
		{"lookup:pods.*", false, false},
		{"lookup:", false, false},
		{"lookup:.apps", false, false},
		{"lookup:deployments.", false, false},
		{"lookup:Pods", false, false},
		{"lookup:pods/status", false, false},
		{"lookup", false, false},
		{"authorize:pods", false, false},
		{"", false, false},
	}
	for _, tc := range tests {
		t.Run(tc.text, func(t *testing.T) {
			if got := abi.ValidCapability(tc.text); got != tc.asked {
				t.Errorf("ValidCapability = %v", got)
			}
			if got := abi.ValidGrant(tc.text); got != tc.grant {
				t.Errorf("ValidGrant = %v", got)
			}
			group, resource, ok := abi.ParseLookup(tc.text)
			if ok && tc.asked && abi.LookupCapability(group, resource) != tc.text {
				t.Errorf("ParseLookup = %q, %q", group, resource)
			}
		})
	}
}

func TestGranted(t *testing.T) {
	tests := []struct {
		name    string
		grants  []string
		missing []string // of the list below
	}{
		{"nothing", nil, []string{"authorize", "lookup:pods", "lookup:secrets", "lookup:deployments.apps", "lookup:secrets.example.com"}},
		{"by name", []string{"authorize", "lookup:secrets", "lookup:deployments.apps"}, []string{"lookup:pods", "lookup:secrets.example.com"}},
		{"all but secrets", []string{"lookup:*"}, []string{"authorize", "lookup:secrets"}},
		{"a group", []string{"lookup:*.apps"}, []string{"authorize", "lookup:pods", "lookup:secrets", "lookup:secrets.example.com"}},
		{"another group", []string{"lookup:pods.example.com", "lookup:deployments"}, []string{"authorize", "lookup:pods", "lookup:secrets", "lookup:deployments.apps", "lookup:secrets.example.com"}},
	}
	asked := []string{"authorize", "lookup:pods", "lookup:secrets", "lookup:deployments.apps", "lookup:secrets.example.com"}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := abi.Missing(tc.grants, asked); !slices.Equal(got, tc.missing) {
				t.Errorf("missing %q, want %q", got, tc.missing)
			}
		})
	}
	if abi.Granted([]string{"lookup:*"}, "lookup:*") {
		t.Error("a wildcard was asked for")
	}
}
