package server

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestParseOverrides(t *testing.T) {
	tests := []struct {
		text string
		want *serversOverride // nil: an error
	}{
		{"/events#https://a:2379;https://b:2379", &serversOverride{schema.GroupResource{Resource: "events"}, []string{"https://a:2379", "https://b:2379"}}},
		{"apps/deployments#http://a", &serversOverride{schema.GroupResource{Group: "apps", Resource: "deployments"}, []string{"http://a"}}},
		{"events#http://a", nil},
		{"apps/v1/deployments#http://a", nil},
		{"/events", nil},
		{"/events#", nil},
		{"/events#http://a;", nil},
		{"/#http://a", nil},
		{"/events#http://a#b", nil},
		{"/events#ftp://a", nil},
	}
	for _, tc := range tests {
		t.Run(tc.text, func(t *testing.T) {
			got, err := parseOverrides([]string{tc.text})
			switch {
			case tc.want == nil && err == nil:
				t.Errorf("got %v, want an error", got)
			case tc.want != nil && (err != nil || !reflect.DeepEqual(got, []serversOverride{*tc.want})):
				t.Errorf("got %v, %v, want %v", got, err, *tc.want)
			}
		})
	}
	if _, err := parseOverrides([]string{"/events#http://a", "/events#http://b"}); err == nil {
		t.Error("a resource is placed twice without an error")
	}
}

func TestParseCacheSizes(t *testing.T) {
	got, err := parseCacheSizes([]string{"pods#100", "deployments.apps#0"})
	want := map[schema.GroupResource]int{{Resource: "pods"}: 100, {Group: "apps", Resource: "deployments"}: 0}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"pods", "pods#", "pods#-1", "#5", "pods#many", "pods#99999999"} {
		if _, err := parseCacheSizes([]string{text}); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// Comparisons give way to their cost where no interval is given, also when the configuration is used again.
func TestCheckShare(t *testing.T) {
	for interval, want := range map[time.Duration]float64{0: consistencyCheckShare, DefaultConsistencyCheckInterval: 0, time.Second: 0, -1: 0} {
		c := StorageConfig{ConsistencyCheckInterval: interval}
		for range 2 {
			c.complete()
			if got := c.checkShare(); got != want {
				t.Errorf("interval %s: share %v, want %v", interval, got, want)
			}
		}
	}
}
