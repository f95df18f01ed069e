package loader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
)

// TestLookedUpStays: the cache of what a module looks up is there before its first look-up, and stays when nobody uses it; after
// a restart it is there at once.
func TestLookedUpStays(t *testing.T) {
	const idle = 2 * time.Second
	env := servertest.Start(t, servertest.Options{Config: server.Config{Storage: server.StorageConfig{WatchCacheIdleTimeout: idle}}})
	f := &fixture{env, connect(t, env)}
	const request = `{"resource":"secrets"}`
	f.ready(t, modules, module("seer", inline(seer("seer", request, "lookup:secrets")), grant("lookup:secrets")))
	f.ready(t, strategies, onConfigMaps(calls("seer")))
	looks := func() {
		t.Helper()
		_, err := f.write(t, "x")
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"items":[`) {
			t.Errorf("a write: %v, want the answer of the look-up", err)
		}
	}
	stops := func(resource string) float64 {
		return f.metric(t, fmt.Sprintf(`weir_watch_cache_idle_stops_total{group="",resource=%q}`, resource))
	}
	looks()
	// Another cache is started with it, and stops.
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	if _, err := f.client.Resource(services).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) {
		n := stops("services")
		return n > 0, n
	})
	if n := stops("secrets"); n != 0 {
		t.Errorf("the cache of what is looked up has stopped %v times", n)
	}
	looks()
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	looks()
}
