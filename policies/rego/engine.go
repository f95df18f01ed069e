package rego

import (
	"errors"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// Default limits of an evaluation.
const (
	// DefaultStepLimit is roughly 0.1 s of CPU.
	DefaultStepLimit = 250_000
	// DefaultTimeout is for what steps do not see. It is that of a guest: a policy that a busy machine does not get
	// round to refuses requests.
	DefaultTimeout = 5 * time.Second
)

// Config of an Engine. The zero value has the default limits.
type Config struct {
	// StepLimit bounds one evaluation; 0 is DefaultStepLimit.
	StepLimit uint64
	// Timeout bounds one evaluation; 0 is DefaultTimeout. The context may end it before.
	Timeout time.Duration
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Timeout < 0 {
		return errors.New("timeout is negative")
	}
	return nil
}

// Engine compiles policies. It may be used concurrently.
type Engine struct {
	config       Config
	capabilities *ast.Capabilities
	refused      map[string]string // why, by the name of a built-in function
	guarded      map[string]*topdown.Builtin
}

// New returns an Engine.
func New(config Config) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.StepLimit == 0 {
		config.StepLimit = DefaultStepLimit
	}
	if config.Timeout == 0 {
		config.Timeout = DefaultTimeout
	}
	e := &Engine{config: config, guarded: guardedBuiltins()}
	e.capabilities, e.refused = capabilities()
	return e, nil
}

// Name is that of the language, in errors and metric labels.
func (*Engine) Name() string { return "rego" }
