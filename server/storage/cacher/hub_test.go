package cacher

import (
	"fmt"
	"reflect"
	"testing"
)

// TestManyNames: an event looks for a bounded number of label names, however many clients watch by; who watches by another
// gets the same events.
func TestManyNames(t *testing.T) {
	c := newTestCacher(t, newFake(), nil)
	var idle []func()
	for i := range 2 * maxNames {
		w := mustWatch(t, c, testPrefix, selecting(t, "1", fmt.Sprintf("k%d=v", i), ""))
		idle = append(idle, w.Stop)
	}
	if n := len(c.hub.labels); n != maxNames {
		t.Errorf("%d names, want %d", n, maxNames)
	}
	w := mustWatch(t, c, testPrefix, selecting(t, "1", "app=two", ""))
	if kind := w.(*watcher).topic.key.kind; kind != prefixTopic {
		t.Errorf("topic kind %d, want %d", kind, prefixTopic)
	}
	want := []string{"ADDED a/x@3", "DELETED a/x@4"}
	got := make(chan []string)
	go func() { got <- takeBeside(t, w, len(want)) }()
	putPod(t, c, "a", "x", "n1", "one")
	putPod(t, c, "a", "x", "n1", "two")
	removePod(t, c, "a", "x")
	if got := <-got; !reflect.DeepEqual(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	for _, stop := range idle {
		stop()
	}
	w.Stop()
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if len(c.hub.labels) > 0 || len(c.hub.topics) > 0 {
		t.Errorf("%d names and %d topics are left", len(c.hub.labels), len(c.hub.topics))
	}
}
