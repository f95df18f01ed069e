package loader

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

var configMapResource = schema.GroupResource{Resource: "configmaps"}

// fetch returns the bytes of a module.
func (l *Loader) fetch(ctx context.Context, source *v1alpha1.ModuleSource) ([]byte, error) {
	switch {
	case len(source.Inline) > 0:
		return source.Inline, nil
	case source.File != "":
		return l.artefacts.file(source.File)
	case source.ConfigMapRef != nil:
		return l.configMapKey(ctx, source.ConfigMapRef)
	}
	return nil, errors.New("spec.source names no source: set inline, configMapRef or file")
}

func (l *Loader) configMapKey(ctx context.Context, ref *v1alpha1.ConfigMapKey) ([]byte, error) {
	getter, ok := l.storage(configMapResource).(rest.Getter)
	if !ok {
		return nil, fmt.Errorf("%s are not served", configMapResource)
	}
	obj, err := getter.Get(request.WithNamespace(ctx, ref.Namespace), ref.Name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if v := obj.Get("binaryData", ref.Key); v.Exists() {
		data, err := base64.StdEncoding.DecodeString(v.String())
		if err != nil {
			return nil, fmt.Errorf("configmap %s/%s key %q: %w", ref.Namespace, ref.Name, ref.Key, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("configmap %s/%s has no key %q in binaryData", ref.Namespace, ref.Name, ref.Key)
}
