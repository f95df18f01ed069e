package controllers

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// answers is a storage that answers a name with an error, nil where there is an object, and others with NotFound.
type answers struct {
	collectable
	errors map[string]error
}

func (a answers) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	err, ok := a.errors[name]
	if !ok {
		err = apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return nil, err
}

// generation is a catalog that changes.
type generation struct {
	catalog
	number uint64
}

func (g generation) Generation() uint64 { return g.number }

// A kind is gone with its definition only where it was served and storage has the definition no more.
func TestInventoryUndefined(t *testing.T) {
	away := errors.New("away")
	custom := func(kind, name string) *rest.Resource {
		return &rest.Resource{Group: "example.com", Kind: kind, Name: name, Custom: true, Versions: []*rest.Version{{Name: "v1", Storage: answers{}}}}
	}
	definitions := &rest.Resource{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "customresourcedefinitions", Versions: []*rest.Version{
		{Name: "v1", Storage: answers{errors: map[string]error{"backs.example.com": nil, "unknowns.example.com": away}}}}}
	var index kindIndex
	index.inventory(generation{catalog{definitions, custom("Gone", "gones"), custom("Back", "backs"), custom("Unknown", "unknowns")}, 1})
	later := index.inventory(generation{catalog{definitions}, 2})
	for kind, want := range map[string]bool{"Gone": true, "Back": false, "Unknown": false, "Never": false} {
		got, err := later.undefined(t.Context(), schema.GroupKind{Group: "example.com", Kind: kind})
		if got != want || errors.Is(err, away) != (kind == "Unknown") {
			t.Errorf("%s: %t, %v, want %t", kind, got, err, want)
		}
	}
}
