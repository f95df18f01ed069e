package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/server/rest"
)

var strategyResource = schema.GroupResource{Group: "weir.dev", Resource: "strategies"}

// bootstrapStrategies creates the first-party strategies that are not there: on a fresh server, rules
// in CEL, so that nothing waits for a compiler. One that an operator changed is left alone; to switch one off,
// empty its layers.
func (s *Server) bootstrapStrategies(ctx context.Context) error {
	strategies, err := defaultStrategies()
	if err != nil {
		return err
	}
	strategies = slices.DeleteFunc(strategies, func(obj *document.Document) bool {
		return s.has(ctx, strategyResource, rest.MetaOf(obj).Name())
	})
	return s.createStrategies(ctx, strategies)
}

// createStrategies creates those that are not there.
func (s *Server) createStrategies(ctx context.Context, strategies []*document.Document) error {
	creater, ok := s.stored(strategyResource.Group, strategyResource.Resource).(rest.Creater)
	if !ok {
		return errors.New("strategies are not served")
	}
	for _, obj := range strategies {
		if _, err := creater.Create(ctx, obj, nil, &metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("strategy %s: %w", rest.MetaOf(obj).Name(), err)
		}
	}
	return nil
}

// defaultStrategies returns the first-party strategies.
func defaultStrategies() ([]*document.Document, error) {
	files, err := fs.Glob(library.FS, "*/strategy.yaml")
	if err != nil {
		return nil, err
	}
	strategies := make([]*document.Document, 0, len(files))
	for _, name := range files {
		text, err := fs.ReadFile(library.FS, name)
		if err != nil {
			return nil, err
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		obj, err := document.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		strategies = append(strategies, obj)
	}
	return strategies, nil
}
