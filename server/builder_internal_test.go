package server

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/policies"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/storage"
)

// settled has storages of no rows, and notes what becomes of each.
type settled struct {
	noRows
	calls []string
}

func (s *settled) get(gr schema.GroupResource, rows rows) (storage.Interface, func(use bool), error) {
	text := fmt.Sprint(gr, " by ", len(rows.fields), " fields")
	return unstored{}, func(use bool) { s.calls = append(s.calls, fmt.Sprint(text, ": ", use)) }, nil
}

// A resource that is in force keeps its storage, and its watches, where a later definition of it cannot be built.
func TestBuildThatFails(t *testing.T) {
	storages := &settled{}
	b := newBuilder(nil, storages, "/registry", policies.Engines{}, nil, slog.New(slog.DiscardHandler))
	one := resources.Version{Name: "v1", Served: true}
	two := resources.Version{Name: "v2", Served: true, SelectableFields: []resources.SelectableField{{Name: "spec.a", Path: "spec.a"}},
		Subresources: []resources.Subresource{{Name: "writes-nothing"}}}
	build := func(versions ...resources.Version) error {
		_, err := b.Build(&resources.Definition{Group: "example.com", Resource: "things", Kind: "Thing", ListKind: "ThingList", StorageVersion: "v1",
			StoragePrefix: "example.com/things", Versions: versions}, true, nil)
		return err
	}
	if err := build(one); err != nil {
		t.Fatal(err)
	}
	if err := build(one, two); err == nil {
		t.Fatal("built")
	}
	one.Served = false
	if err := build(one); err != nil {
		t.Fatal(err)
	}
	if want := []string{"things.example.com by 0 fields: true", "things.example.com by 1 fields: false"}; !slices.Equal(storages.calls, want) {
		t.Errorf("storages are %q, want %q", storages.calls, want)
	}
}
