package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir.dev/weir/abi/document"
)

// Defaults of [Limits].
const (
	DefaultModuleBytes = 8 << 20
	DefaultMemoryBytes = 64 << 20
	DefaultFuel        = 50_000_000
	DefaultTimeout     = 5 * time.Second
	DefaultDepth       = 2000
)

// DefaultCacheBytes is the default of Config.CacheBytes: some 30 Go guests.
const DefaultCacheBytes = 512 << 20

// DefaultIdleTimeout is the default of Config.IdleTimeout.
const DefaultIdleTimeout = 30 * time.Second

// Limits bound a module and its calls. A zero field means its default.
type Limits struct {
	// ModuleBytes is the size of the artefact.
	ModuleBytes int
	// MemoryBytes is the linear memory of one guest, in whole pages of
	// 64 KiB, at most 1 GiB.
	MemoryBytes int
	// Fuel is the number of units, about one an instruction, of one call
	// whose object and old object have up to 48 KiB together; larger inputs
	// get more in proportion, as Go guests need some 1,000 units a byte to
	// decode JSON. A [Budget] bounds the calls of a request. Loading
	// (initialising and configuring) may use ten times as many.
	Fuel uint64
	// Timeout bounds one call by the wall clock, beside the context and the
	// Budget. Loading may take ten times as long.
	Timeout time.Duration
	// Depth is how deep functions that call others may be nested. One with
	// more than 256 locals and operands counts as several, so that the
	// default takes 8 MiB of stack at most.
	Depth int
}

// fuelInputBytes is how much input Limits.Fuel is meant for.
const fuelInputBytes = 48 << 10

// allowance is the fuel of a call beyond Limits.Fuel, for its size.
func (l Limits) allowance(call *Call) int64 {
	n := 0
	for _, d := range []*document.Document{call.Object, call.OldObject} {
		if d != nil {
			n += len(d.Bytes())
		}
	}
	if n <= fuelInputBytes {
		return 0
	}
	return int64(float64(l.Fuel) / fuelInputBytes * float64(n-fuelInputBytes))
}

// Validate tells whether the limits make sense.
func (l Limits) Validate() error {
	switch {
	case l.ModuleBytes < 0, l.MemoryBytes < 0, l.Timeout < 0, l.Depth < 0:
		return errors.New("host: negative limit")
	case l.MemoryBytes > 1<<30:
		return errors.New("host: more than 1 GiB of memory for a guest")
	case l.Fuel > 1<<53:
		return errors.New("host: fuel out of range")
	case l.Depth > 100_000:
		return errors.New("host: call depth above 100000")
	}
	return nil
}

// or fills zero fields from d.
func (l Limits) or(d Limits) Limits {
	if l.ModuleBytes == 0 {
		l.ModuleBytes = d.ModuleBytes
	}
	if l.MemoryBytes == 0 {
		l.MemoryBytes = d.MemoryBytes
	}
	if l.Fuel == 0 {
		l.Fuel = d.Fuel
	}
	if l.Timeout == 0 {
		l.Timeout = d.Timeout
	}
	if l.Depth == 0 {
		l.Depth = d.Depth
	}
	return l
}

// RestoreMode is how a guest's memory is put back after a call.
type RestoreMode string

// Restore modes. What the system does not offer falls back: sticky to
// discard to copy.
const (
	// RestoreAuto copies small memories and is sticky for others.
	RestoreAuto RestoreMode = ""
	// RestoreCopy copies the whole memory.
	RestoreCopy RestoreMode = "copy"
	// RestoreDiscard drops written pages, which fault in again.
	RestoreDiscard RestoreMode = "discard"
	// RestoreSticky copies written pages back (Linux 6.7 and later).
	RestoreSticky RestoreMode = "sticky"
)

// Config configures a [Runtime]. The zero value is usable.
type Config struct {
	// Limits of modules that do not set their own.
	Limits Limits
	// CacheDir keeps compiled code between runs of the program; empty means
	// not at all. Whoever can write to it can run code in this process.
	// Several processes can share it.
	CacheDir string
	// CacheBytes bounds what CacheDir holds: what was used least recently
	// goes. 0 means DefaultCacheBytes.
	CacheBytes int64
	// Guests is the most guests that one module runs at a time; further
	// calls wait. 0 means twice GOMAXPROCS.
	Guests int
	// IdleTimeout is how long a guest stays that no call needs: it is closed,
	// and its memory given back, when it was idle for that long, at the latest
	// for twice as long. The one of a module that was used last stays. 0 means
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// CompileWorkers is how many goroutines compile one module. 0 means
	// GOMAXPROCS, at least 2: with one, a compilation cannot be cancelled.
	CompileWorkers int
	// Compiles is how many modules are compiled, or read from the cache, at a
	// time; others wait. 0 means 2. A Go guest takes some 100 MB for that.
	Compiles int
	// Restore says how memory is put back.
	Restore RestoreMode
	// Interpreter runs guests without compiling them, many times slower.
	Interpreter bool
	// Registerer takes the metrics; nil means that there are none.
	Registerer prometheus.Registerer
	// Now is the clock for deadlines and durations; nil means the system's.
	Now func() time.Time
}

// Validate tells whether the configuration makes sense.
func (c *Config) Validate() error {
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if c.Guests < 0 || c.CompileWorkers < 0 || c.Compiles < 0 || c.CacheBytes < 0 {
		return errors.New("host: negative number of guests, workers, compilations or bytes")
	}
	if c.IdleTimeout < 0 {
		return errors.New("host: negative idle timeout")
	}
	switch c.Restore {
	case RestoreAuto, RestoreCopy, RestoreDiscard, RestoreSticky:
	default:
		return fmt.Errorf("host: restore mode %q does not exist", c.Restore)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Limits = c.Limits.or(Limits{
		ModuleBytes: DefaultModuleBytes,
		MemoryBytes: DefaultMemoryBytes,
		Fuel:        DefaultFuel,
		Timeout:     DefaultTimeout,
		Depth:       DefaultDepth,
	})
	if c.Guests == 0 {
		c.Guests = 2 * runtime.GOMAXPROCS(0)
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = DefaultIdleTimeout
	}
	if c.Compiles == 0 {
		c.Compiles = 2
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.CompileWorkers == 0 {
		c.CompileWorkers = max(2, runtime.GOMAXPROCS(0))
	}
	if c.Now == nil {
		// The monotonic clock alone takes half the time of both.
		started := time.Now()
		c.Now = func() time.Time { return started.Add(time.Since(started)) }
	}
	return c
}

// ModuleConfig says how a module is to be used.
type ModuleConfig struct {
	// Name of the module in errors, logs and metrics.
	Name string
	// Settings are given to the guest's configure hook and to every call;
	// JSON, or empty for none.
	Settings json.RawMessage
	// Limits; zero fields are the runtime's.
	Limits Limits
	// Capabilities are granted to the module, as abi.ValidGrant has them.
	Capabilities []string
	// GrantAll grants whatever the module asks for: to try one out.
	GrantAll bool
	// Lookuper and Authorizer answer the calls of its imports, if they are
	// granted. Without one such a call ends with the class NotReady.
	Lookuper   Lookuper
	Authorizer Authorizer
	// Logger takes what the guest logs; nil means nobody does.
	Logger *slog.Logger
	// Warm are calls to run before the guest's state is captured, so that
	// lazy initialisation is behind every later call. If one of them fails
	// the state from before them is captured. Nil means one call of each
	// hook with a minimal object, an empty slice none.
	Warm []*Call
}
