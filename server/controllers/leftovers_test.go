package controllers

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"

	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// What is stored in a namespace when it has ended goes: it was admitted before. What is in one that was made anew stays.
func TestLeftovers(t *testing.T) {
	c := newCluster(t)
	names := []string{"ended", "anew"}
	if err := Bootstrap(t.Context(), c.namespaces, names); err != nil {
		t.Fatal(err)
	}
	var looks []time.Duration
	for look := time.Second; look < time.Minute; look += time.Second {
		looks = append(looks, look) // one of them comes after what comes late, however late that is
	}
	controller, err := NewNamespaces(NamespacesConfig{Namespaces: c.namespaces, Finalize: c.finalize, Status: c.status, Resync: time.Hour,
		Looks: looks, Catalog: func(context.Context) (rest.Catalog, error) { return c.catalog, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		controller.Run(ctx)
		close(done)
	}()
	defer func() {
		cancel()
		<-done
	}()
	for _, name := range names {
		if _, _, err := c.namespaces.Delete(t.Context(), name, nil, nil); err != nil {
			t.Fatal(err)
		}
		c.await(t, name, gone)
		if name == "anew" {
			if err := Bootstrap(t.Context(), c.namespaces, []string{name}); err != nil {
				t.Fatal(err)
			}
		}
		c.create(t, c.widgets, "Widget", name, `"name":"late"`)
		c.create(t, c.gadgets, "Gadget", name, `"name":"late"`)
	}
	for _, s := range []interface {
		rest.Lister
		rest.Watcher
	}{c.widgets, c.gadgets} {
		in, stop := context.WithTimeout(request.WithNamespace(t.Context(), "ended"), 30*time.Second)
		defer stop()
		list, err := s.List(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			continue
		}
		w, err := s.Watch(in, &internalversion.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if events, err := w.Next(in); err != nil || len(events) != 1 || events[0].Type != "DELETED" {
			t.Fatalf("%v, %v, want the end of what came late", events, err)
		}
	}
	if n, err := controller.deleteLeftovers(t.Context(), "anew"); n != 0 || err != nil {
		t.Errorf("%d objects are deleted in a namespace that is there, %v", n, err)
	}
	for _, s := range []rest.Lister{c.widgets, c.gadgets} {
		if list, err := s.List(request.WithNamespace(t.Context(), "anew"), nil); err != nil || len(list.Items) != 1 {
			t.Errorf("%v, %v in a namespace that was made anew", list, err)
		}
	}
}
