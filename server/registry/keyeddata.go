package registry

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// ConfigMapLayer is what upstream's validation (pkg/apis/core/validation, ValidateConfigMap) says of a ConfigMap beside its
// schema: keys that can be names of files, each once, 1 MiB at most, and what is immutable stays as it is.
type ConfigMapLayer struct{ rest.NoHooks }

// SecretLayer is the same for the data of a Secret. What else is particular to it is in its Strategy.
type SecretLayer struct{ rest.NoHooks }

var (
	_ rest.Layer = ConfigMapLayer{}
	_ rest.Layer = SecretLayer{}
)

// Name implements rest.Layer.
func (ConfigMapLayer) Name() string { return "configmap" }

// Implements implements rest.Layer.
func (ConfigMapLayer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

// Validate implements rest.Hooks.
func (ConfigMapLayer) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	data, binary := obj.Get("data"), obj.Get("binaryData")
	errs, size := configKeys(field.NewPath("data"), data, textSize)
	more, binarySize := configKeys(field.NewPath("binaryData"), binary, base64Size)
	errs = append(errs, more...)
	if data.Len() > 0 {
		for name := range binary.Members() {
			if data.Get(name).Exists() {
				errs = append(errs, field.Invalid(field.NewPath("binaryData").Key(name), name, "duplicate of key present in data[]"))
			}
		}
	}
	if size+binarySize > corev1.MaxSecretSize {
		errs = append(errs, tooLarge(nil))
	}
	return errs, nil
}

// ValidateUpdate implements rest.Hooks.
func (l ConfigMapLayer) ValidateUpdate(ctx context.Context, obj, old *document.Document) (field.ErrorList, error) {
	var errs field.ErrorList
	if was, _ := old.Get("immutable").Bool(); was {
		const detail = "field is immutable when `immutable` is set"
		if is, _ := obj.Get("immutable").Bool(); !is {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), detail))
		}
		for _, name := range []string{"data", "binaryData"} {
			if now, before := obj.Get(name), old.Get(name); !now.Equal(before) && now.Len()+before.Len() > 0 {
				errs = append(errs, field.Forbidden(field.NewPath(name), detail))
			}
		}
	}
	more, err := l.Validate(ctx, obj)
	return append(errs, more...), err
}

// Name implements rest.Layer.
func (SecretLayer) Name() string { return "secret-data" }

// Implements implements rest.Layer.
func (SecretLayer) Implements() rest.HookSet {
	return rest.HookSet(rest.HookValidate | rest.HookValidateUpdate)
}

// Validate implements rest.Hooks.
func (SecretLayer) Validate(_ context.Context, obj *document.Document) (field.ErrorList, error) {
	path := field.NewPath("data")
	errs, size := configKeys(path, obj.Get("data"), base64Size)
	if size > corev1.MaxSecretSize {
		errs = append(errs, tooLarge(path))
	}
	return errs, nil
}

// ValidateUpdate implements rest.Hooks.
func (l SecretLayer) ValidateUpdate(ctx context.Context, obj, _ *document.Document) (field.ErrorList, error) {
	return l.Validate(ctx, obj)
}

// maxKeyErrors bounds how many keys one answer names.
const maxKeyErrors = 100

// configKeys validates the keys of data and adds up the sizes of its values, in bytes.
func configKeys(path *field.Path, data document.Value, sizeOf func(string) int) (errs field.ErrorList, size int) {
	for name, value := range data.Members() {
		size += sizeOf(value.String())
		if len(errs) >= maxKeyErrors {
			continue
		}
		for _, msg := range validation.IsConfigMapKey(name) {
			errs = append(errs, field.Invalid(path.Key(name), name, msg))
		}
	}
	return errs, size
}

func textSize(text string) int { return len(text) }

// base64Size is how many bytes a text in base64 stands for.
func base64Size(text string) int {
	return len(text)/4*3 - (len(text) - len(strings.TrimRight(text, "=")))
}

// tooLarge has no value: it would be the whole object. Upstream gives a ConfigMap no path.
func tooLarge(path *field.Path) *field.Error {
	err := field.TooLong(path, "", corev1.MaxSecretSize)
	if path == nil {
		err.Field = "data"
	}
	err.Detail = fmt.Sprintf("may not be more than %d bytes", corev1.MaxSecretSize)
	return err
}
