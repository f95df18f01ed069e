package registry

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"weir.dev/weir/server/request"
)

// key returns the key of one object in the namespace of ctx. What cannot be part of a
// key is a BadRequest.
func (s *Store) key(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", apierrors.NewBadRequest("Name parameter required.")
	}
	if err := pathSegment("Name", name); err != nil {
		return "", err
	}
	if !s.cfg.Strategy.NamespaceScoped() {
		return s.cfg.Prefix + "/" + name, nil
	}
	ns, _ := request.NamespaceFrom(ctx)
	if ns == "" {
		return "", apierrors.NewBadRequest("Namespace parameter required.")
	}
	if err := pathSegment("Namespace", ns); err != nil {
		return "", err
	}
	return s.cfg.Prefix + "/" + ns + "/" + name, nil
}

// root returns the prefix of all objects in a namespace, "" for all namespaces. It ends with "/".
func (s *Store) root(namespace string) (string, error) {
	if namespace == "" || !s.cfg.Strategy.NamespaceScoped() {
		return s.cfg.Prefix + "/", nil
	}
	if err := pathSegment("Namespace", namespace); err != nil {
		return "", err
	}
	return s.cfg.Prefix + "/" + namespace + "/", nil
}

func pathSegment(what, value string) error {
	msgs := content.IsPathSegmentName(value)
	if strings.ContainsRune(value, 0) {
		msgs = append(msgs, "may not contain a NUL character")
	}
	if len(msgs) == 0 {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("%s parameter invalid: %q: %s", what, value, strings.Join(msgs, ";")))
}
