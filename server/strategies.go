package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/library"
	"weir.dev/weir/server/rest"
)

// bootstrapStrategies creates the first-party strategies that are not there: on a fresh server, rules
// in CEL, so that nothing waits for a compiler. One that an operator changed is left alone; to switch one off,
// empty its layers.
func (s *Server) bootstrapStrategies(ctx context.Context) error {
	creater, ok := s.stored("weir.dev", "strategies").(rest.Creater)
	if !ok {
		return errors.New("strategies are not served")
	}
	files, err := fs.Glob(library.FS, "*/strategy.yaml")
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := fs.ReadFile(library.FS, name)
		if err != nil {
			return err
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		obj, err := document.Parse(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if _, err := creater.Create(ctx, obj, nil, &metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
