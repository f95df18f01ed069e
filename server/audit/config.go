package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"
)

// Modes of a backend.
const (
	// ModeBatch keeps events in memory and writes many at once. Requests do not wait; events beyond the number that may
	// wait are lost, and the objects of those that wait are 64 MiB at most: later ones are left out.
	ModeBatch = "batch"
	// ModeBlocking writes an event before the request goes on. An event that cannot be written is lost.
	ModeBlocking = "blocking"
	// ModeBlockingStrict is ModeBlocking, but refuses a request whose first event cannot be written.
	ModeBlockingStrict = "blocking-strict"
)

// Config says what is audited and where the events go. Its zero value audits nothing.
type Config struct {
	// PolicyFile is a Policy of audit.k8s.io/v1. "": nothing is audited.
	PolicyFile string
	Log        LogConfig
	Webhook    WebhookConfig
}

// LogConfig is about the file of events.
type LogConfig struct {
	// Path of the file, "-" for standard output. "": there is none.
	Path string
	// Format is pluginlog.FormatJson, an event a line, or FormatLegacy, a text a line.
	Format string
	// MaxSize in MiB at which the file gets a name with a timestamp and a new one is begun; 0: it grows.
	MaxSize int
	// MaxAge in days of such files, and how many of them are kept; 0: all.
	MaxAge, MaxBackups int
	// Compress them.
	Compress bool
	Delivery
}

// WebhookConfig is about the service that events are sent to.
type WebhookConfig struct {
	// ConfigFile is a kubeconfig. "": there is no such service.
	ConfigFile string
	// InitialBackoff before a request is tried again.
	InitialBackoff time.Duration
	Delivery
}

// Delivery says how events get to a backend.
type Delivery struct {
	// Mode is one of the Modes.
	Mode string
	// Batch is for ModeBatch.
	Batch buffered.BatchConfig
	// TruncateEnabled cuts events that are larger than Truncate says: objects are left out of them.
	TruncateEnabled bool
	Truncate        truncate.Config
}

// Modes are those that there are.
func Modes() []string { return []string{ModeBatch, ModeBlocking, ModeBlockingStrict} }

// Formats are those of a log.
func Formats() []string { return slices.Clone(pluginlog.AllowedFormats) }

// Defaults has kube-apiserver's defaults: a log of JSON that requests wait for, of files of 100 MiB; a webhook that they
// do not wait for; objects of any size.
func Defaults() Config {
	truncated := truncate.Config{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10}
	return Config{
		Log: LogConfig{
			Format: pluginlog.FormatJson, MaxSize: 100, MaxAge: 366, MaxBackups: 100,
			Delivery: Delivery{Mode: ModeBlocking, Truncate: truncated, Batch: buffered.BatchConfig{
				BufferSize: 10000, MaxBatchSize: 1, // events go to a file one by one anyway
			}},
		},
		Webhook: WebhookConfig{
			InitialBackoff: webhook.DefaultInitialBackoffDelay,
			Delivery: Delivery{Mode: ModeBatch, Truncate: truncated, Batch: buffered.BatchConfig{
				BufferSize: 10000, MaxBatchSize: 400, MaxBatchWait: 30 * time.Second,
				ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15, AsyncDelegate: true,
			}},
		},
	}
}

// Complete sets what is left out to kube-apiserver's defaults, other than the sizes and numbers of files: a log that says
// nothing of them is one file that grows.
func (c *Config) Complete() {
	d := Defaults()
	if c.Log.Format == "" {
		c.Log.Format = d.Log.Format
	}
	c.Log.complete(&d.Log.Delivery)
	if c.Webhook.InitialBackoff == 0 {
		c.Webhook.InitialBackoff = d.Webhook.InitialBackoff
	}
	c.Webhook.complete(&d.Webhook.Delivery)
}

func (d *Delivery) complete(from *Delivery) {
	if d.Mode == "" {
		d.Mode = from.Mode
	}
	if d.Batch == (buffered.BatchConfig{}) {
		d.Batch = from.Batch
	}
	if d.Truncate == (truncate.Config{}) {
		d.Truncate = from.Truncate
	}
}

// Validate returns what is wrong with a complete c, in the terms of the flags of `weir serve`. What belongs to a backend that is not
// asked for is not looked at.
func (c *Config) Validate() error {
	var errs []error
	if c.Log.Path != "" {
		if !slices.Contains(pluginlog.AllowedFormats, c.Log.Format) {
			errs = append(errs, fmt.Errorf("--audit-log-format %q: give %s", c.Log.Format, strings.Join(pluginlog.AllowedFormats, " or ")))
		}
		for flag, value := range map[string]int{"maxsize": c.Log.MaxSize, "maxage": c.Log.MaxAge, "maxbackup": c.Log.MaxBackups} {
			if value < 0 {
				errs = append(errs, fmt.Errorf("--audit-log-%s %d is negative", flag, value))
			}
		}
		errs = append(errs, c.Log.validate("log"))
	}
	if c.Webhook.ConfigFile != "" {
		if c.Webhook.InitialBackoff < 0 {
			errs = append(errs, fmt.Errorf("--audit-webhook-initial-backoff %s is negative", c.Webhook.InitialBackoff))
		}
		errs = append(errs, c.Webhook.validate("webhook"))
	}
	return errors.Join(errs...)
}

func (d *Delivery) validate(backend string) error {
	var errs []error
	wrong := func(flag string, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--audit-%s-%s %s", backend, flag, fmt.Sprintf(format, args...)))
	}
	switch {
	case !slices.Contains(Modes(), d.Mode):
		wrong("mode", "%q: give %s", d.Mode, strings.Join(Modes(), ", "))
	case d.Mode == ModeBatch:
		if d.Batch.BufferSize <= 0 {
			wrong("batch-buffer-size", "%d is not positive", d.Batch.BufferSize)
		}
		if d.Batch.MaxBatchSize <= 0 {
			wrong("batch-max-size", "%d is not positive", d.Batch.MaxBatchSize)
		}
		if d.Batch.ThrottleEnable && d.Batch.ThrottleQPS <= 0 {
			wrong("batch-throttle-qps", "%v is not positive", d.Batch.ThrottleQPS)
		}
		if d.Batch.ThrottleEnable && d.Batch.ThrottleBurst <= 0 {
			wrong("batch-throttle-burst", "%d is not positive", d.Batch.ThrottleBurst)
		}
	}
	if d.Truncate.MaxEventSize <= 0 {
		wrong("truncate-max-event-size", "%d is not positive", d.Truncate.MaxEventSize)
	}
	if d.Truncate.MaxBatchSize < d.Truncate.MaxEventSize {
		wrong("truncate-max-batch-size", "%d is less than the size of an event, %d", d.Truncate.MaxBatchSize, d.Truncate.MaxEventSize)
	}
	return errors.Join(errs...)
}
