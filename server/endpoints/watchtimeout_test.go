package endpoints

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
)

// A watch is open for timeoutSeconds, else for 30 to 60 minutes at random.
func TestWatchTimeout(t *testing.T) {
	s := &server{Config: Config{MinRequestTimeout: DefaultMinRequestTimeout}}
	seconds := func(n int64) *internalversion.ListOptions { return &internalversion.ListOptions{TimeoutSeconds: &n} }
	for _, given := range []int64{1, 7200} {
		if got := s.watchTimeout(seconds(given)); got != time.Duration(given)*time.Second {
			t.Errorf("timeoutSeconds=%d: %v", given, got)
		}
	}
	for name, opts := range map[string]*internalversion.ListOptions{"none": {}, "0": seconds(0)} {
		least, most := s.watchTimeout(opts), time.Duration(0)
		for range 1000 {
			got := s.watchTimeout(opts)
			least, most = min(least, got), max(most, got)
		}
		if least < 30*time.Minute || least > 33*time.Minute || most > time.Hour || most < 57*time.Minute {
			t.Errorf("timeoutSeconds %s: from %v to %v", name, least, most)
		}
	}
}
