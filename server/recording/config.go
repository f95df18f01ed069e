package recording

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/rest"
)

// Defaults of Config.
const (
	DefaultMaxBytes = 100 << 20
	DefaultBackups  = 3
)

// DefaultExclude are resources that are written all the time and that hardly any policy concerns.
func DefaultExclude() []string {
	return []string{"leases.coordination.k8s.io", "events", "events.events.k8s.io"}
}

// Config says what is recorded, and where.
type Config struct {
	// File is appended to. When it has grown to MaxBytes it becomes FILE.1, the one before FILE.2, and so on; the last
	// of Backups is removed. So a recording takes (Backups+1) times MaxBytes of disk at most.
	File string
	// MaxBytes of a file; 0: DefaultMaxBytes.
	MaxBytes int64
	// Backups are how many files are kept beside it; 0: DefaultBackups, negative: none.
	Backups int
	// Redact are resources, as deployments.apps, that are treated as secrets are; see the package.
	Redact []string
	// Exclude are resources whose requests are not recorded; nil: DefaultExclude.
	Exclude []string
	// Namespaces gives the namespace of a request; it is asked for the state of any age.
	Namespaces rest.Getter
	// Policies are asked; what they say is what is recorded.
	Policies interface {
		admission.Mutator
		admission.Validator
	}
	// Metrics may be nil.
	Metrics *Metrics
	Logger  *slog.Logger
}

// Validate reports what is missing or wrong.
func (c *Config) Validate() error {
	if c.Namespaces == nil || c.Policies == nil || c.Logger == nil {
		return errors.New("recording: Config needs Namespaces, Policies and Logger")
	}
	return c.Check()
}

// Check reports what is wrong with what a user says, in the terms of the flags of `weir serve`.
func (c *Config) Check() error {
	var errs []error
	if c.File == "" {
		errs = append(errs, errors.New("--record: a file is missing"))
	}
	if c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("--record-max-size: %d is less than 0", c.MaxBytes))
	}
	for _, name := range slices.Concat(c.Redact, c.Exclude) {
		if gr := schema.ParseGroupResource(name); gr.Resource == "" {
			errs = append(errs, fmt.Errorf("--record-redact, --record-exclude: %q is no resource, such as secrets or deployments.apps", name))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) complete() {
	c.File = filepath.Clean(c.File)
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.Backups == 0 {
		c.Backups = DefaultBackups
	}
	if c.Exclude == nil {
		c.Exclude = DefaultExclude()
	}
}

func groupResources(names []string) map[schema.GroupResource]bool {
	set := map[schema.GroupResource]bool{}
	for _, name := range names {
		set[schema.ParseGroupResource(name)] = true
	}
	return set
}
