package schema

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"weir.dev/weir/server/rest"
)

// Config describes one kind in one version.
type Config struct {
	Kind schema.GroupVersionKind
	// Source gives the structural schema. It is called at most once, when the kind is
	// first used. Nil, or a nil schema, keeps every field and validates nothing.
	Source func() (*apiextensionsv1.JSONSchemaProps, error)
	// PreserveUnknown keeps unknown fields (spec.preserveUnknownFields of old CRDs).
	PreserveUnknown bool
	// DropNulls removes every null member that the schema knows, as decoding into Go types does.
	DropNulls bool
}

// Validate reports what is missing.
func (c Config) Validate() error {
	if c.Kind.Kind == "" || c.Kind.Version == "" {
		return errors.New("schema: Config.Kind needs a kind and a version")
	}
	return nil
}

// Kind knows the fields of one kind. It compiles its schema at the first use.
type Kind struct {
	config Config

	structuralOnce sync.Once
	structural     *structuralschema.Structural // Invariant: nil when there is no schema
	shape          *shape                       // Invariant: that of structural, nil with it
	internal       *apiextensions.JSONSchemaProps
	structuralErr  error

	validatorOnce sync.Once
	whole         validation.SchemaValidator
	status        validation.SchemaValidator
	rules         *cel.Validator
	validatorErr  error
}

var _ rest.Schema = (*Kind)(nil)

// New returns the Kind of config.
func New(config Config) (*Kind, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Kind{config: config}, nil
}

// Compile builds now what is otherwise built at the first use, and returns what is
// wrong with the schema.
func (k *Kind) Compile() error {
	if _, err := k.schema(); err != nil {
		return err
	}
	return k.validators()
}

// schema returns the structural schema, nil where there is none.
func (k *Kind) schema() (*structuralschema.Structural, error) {
	k.structuralOnce.Do(func() {
		if k.config.Source == nil {
			return
		}
		props, err := k.config.Source()
		if err != nil {
			k.structuralErr = fmt.Errorf("schema of %s: %w", k.config.Kind.Kind, err)
			return
		}
		if props == nil {
			return
		}
		internal := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil); err != nil {
			k.structuralErr = fmt.Errorf("schema of %s: %w", k.config.Kind.Kind, err)
			return
		}
		structural, err := structuralschema.NewStructural(internal)
		if err != nil {
			k.structuralErr = fmt.Errorf("schema of %s is not structural: %w", k.config.Kind.Kind, err)
			return
		}
		if err := defaulting.PruneDefaults(structural); err != nil {
			k.structuralErr = fmt.Errorf("schema of %s: defaults: %w", k.config.Kind.Kind, err)
			return
		}
		k.internal, k.structural, k.shape = internal, structural, newShape(structural)
	})
	return k.structural, k.structuralErr
}

func (k *Kind) validators() error {
	k.validatorOnce.Do(func() {
		s, err := k.schema()
		if err != nil || s == nil {
			k.validatorErr = err
			return
		}
		if k.whole, _, err = validation.NewSchemaValidator(k.internal); err != nil {
			k.validatorErr = fmt.Errorf("schema of %s: %w", k.config.Kind.Kind, err)
			return
		}
		if status, ok := k.internal.Properties["status"]; ok {
			if k.status, _, err = validation.NewSchemaValidator(&status); err != nil {
				k.validatorErr = fmt.Errorf("schema of %s: status: %w", k.config.Kind.Kind, err)
				return
			}
		}
		k.rules = cel.NewValidator(s, true, celconfig.PerCallLimit)
	})
	return k.validatorErr
}
