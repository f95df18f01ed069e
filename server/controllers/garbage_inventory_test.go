package controllers

import (
	"context"
	"errors"
	"sync"
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
	mu     sync.Mutex
	errors map[string]error // guarded by mu
	asked  func()           // nil, or called before an answer is returned
}

// forget takes an object away.
func (a *answers) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.errors, name)
}

func (a *answers) Get(_ context.Context, name string, _ *metav1.GetOptions) (*document.Document, error) {
	if a.asked != nil {
		defer a.asked()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err, ok := a.errors[name]
	if !ok {
		err = apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return nil, err
}

// A resource is gone with its definition only where it was a custom one and storage has the definition no more.
func TestInventoryUndefined(t *testing.T) {
	away := errors.New("away")
	definition := &rest.Resource{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "customresourcedefinitions", Versions: []*rest.Version{
		{Name: "v1", Storage: &answers{errors: map[string]error{"backs.example.com": nil, "unknowns.example.com": away}}}}}
	var index kindIndex
	objects := index.inventory(catalog{definition})
	for resource, want := range map[string]bool{"gones.example.com": true, "backs.example.com": false, "unknowns.example.com": false, "deployments.apps": false, "pods": false} {
		got, err := objects.undefined(t.Context(), schema.ParseGroupResource(resource))
		if got != want || errors.Is(err, away) != (resource == "unknowns.example.com") {
			t.Errorf("%s: %t, %v, want %t", resource, got, err, want)
		}
	}
	var other kindIndex
	if got, err := other.inventory(catalog{}).undefined(t.Context(), schema.ParseGroupResource("gones.example.com")); got || err != nil {
		t.Errorf("where definitions are not served: %t, %v", got, err)
	}
}
