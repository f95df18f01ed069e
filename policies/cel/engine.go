package cel

import (
	"fmt"
	"sync"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"

	"weir.dev/weir/policies"
)

// Config of an Engine. The zero value has the default limits.
type Config struct {
	// ExpressionLimit bounds the cost of one evaluation; 0 is policies.DefaultExpressionLimit.
	ExpressionLimit uint64
	// RunLimit bounds the metered cost of a run; 0 is policies.DefaultRunLimit.
	RunLimit uint64
	// AlwaysMeter meters every evaluation, so that Cost.Used is exact.
	AlwaysMeter bool
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if c.RunLimit != 0 && c.ExpressionLimit > c.RunLimit {
		return fmt.Errorf("expression limit %d is over the run limit %d", c.ExpressionLimit, c.RunLimit)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.ExpressionLimit == 0 {
		c.ExpressionLimit = policies.DefaultExpressionLimit
	}
	if c.RunLimit == 0 {
		c.RunLimit = max(policies.DefaultRunLimit, c.ExpressionLimit)
	}
	return c
}

// Engine implements policies.Engine.
type Engine struct {
	config Config
	// plain and mutating check expressions.
	plain, mutating *celgo.Env
	// unmetered plans programs: upstream's environment always has them metered by cel-go. It has the same functions.
	unmetered  *celgo.Env
	guardCalls interpreter.InterpretableDecoratorV2
	dispatcher interpreter.Dispatcher // of the functions of unmetered
	runs       *sync.Pool             // of *run
	inputs     []string               // of policies
	// admission are the types of the variables that admission has.
	admission map[string]*apiservercel.DeclType
}

var _ policies.Engine = (*Engine)(nil)

// New returns an Engine with the environment of Kubernetes 1.37.
func New(config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{config: config.withDefaults(), admission: admissionTypes(), inputs: policies.Inputs(), runs: &sync.Pool{New: func() any { return new(run) }}}
	e.plain = environment.MustBaseEnvSet(version.MajorMinor(1, 37)).NewExpressionsEnv()
	resolver := common.ResolverEnvOption(&mutation.DynamicTypeResolver{})
	var err error
	if e.mutating, err = e.plain.Extend(library.JSONPatch(), ext.Encoders(), resolver); err != nil {
		return nil, fmt.Errorf("cel environment for mutations: %w", err)
	}
	if e.unmetered, err = celgo.NewEnv(append(libraries(), resolver)...); err != nil {
		return nil, fmt.Errorf("cel environment without metering: %w", err)
	}
	bound, err := guardedFunctions(e.unmetered)
	if err != nil {
		return nil, fmt.Errorf("cel environment: %w", err)
	}
	e.guardCalls = guarded(bound)
	if e.dispatcher, err = newDispatcher(e.unmetered); err != nil {
		return nil, fmt.Errorf("cel environment: %w", err)
	}
	return e, nil
}

// WithLimits returns an Engine with other limits that shares all else with e.
func (e *Engine) WithLimits(config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	other := *e
	other.config = config.withDefaults()
	return &other, nil
}

// Name implements policies.Engine.
func (*Engine) Name() string { return "cel" }

// libraries are those of k8s.io/apiserver/pkg/cel/environment at version 1.37, and of mutations, with base64 beside
// them. A test compares them.
func libraries() []celgo.EnvOption {
	return []celgo.EnvOption{
		celgo.HomogeneousAggregateLiterals(),
		celgo.EagerlyValidateDeclarations(true),
		celgo.DefaultUTCTimeZone(true),
		celgo.CrossTypeNumericComparisons(true),
		celgo.OptionalTypes(),
		library.URLs(),
		library.Regex(),
		library.Quantity(),
		library.IP(),
		library.CIDR(),
		library.Format(),
		library.Authz(),
		library.AuthzSelectors(),
		library.SemverLib(library.SemverVersion(1)),
		library.Lists(library.ListsVersion(1)),
		library.JSONPatch(),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Lists(ext.ListsVersion(3)),
		ext.Encoders(),
	}
}

// variablesType is the type of variables.
const variablesType = "weir.Variables"

// variableTypes is a type provider that knows the fields of variables. Compile adds
// them one after the other, so that a variable can use those before it.
type variableTypes struct {
	types.Provider
	index map[string]int // shared with the program, read-only once it is compiled
	types map[string]*celgo.Type
}

// FindStructFieldType implements types.Provider.
func (p *variableTypes) FindStructFieldType(structType, name string) (*types.FieldType, bool) {
	if structType != variablesType {
		return p.Provider.FindStructFieldType(structType, name)
	}
	t, ok := p.types[name]
	if !ok {
		return nil, false
	}
	i := p.index[name]
	return &types.FieldType{
		Type:    t,
		IsSet:   func(any) bool { return true },
		GetFrom: func(target any) (any, error) { return target.(*run).variable(i) },
	}, true
}

// FindStructFieldNames implements types.Provider.
func (p *variableTypes) FindStructFieldNames(structType string) ([]string, bool) {
	if structType != variablesType {
		return p.Provider.FindStructFieldNames(structType)
	}
	names := make([]string, 0, len(p.types))
	for name := range p.types {
		names = append(names, name)
	}
	return names, true
}

// FindStructType implements types.Provider.
func (p *variableTypes) FindStructType(structType string) (*types.Type, bool) {
	if structType != variablesType {
		return p.Provider.FindStructType(structType)
	}
	return types.NewTypeTypeWithParam(types.NewObjectType(variablesType)), true
}
