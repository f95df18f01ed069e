package audit_test

import (
	"strings"
	"testing"

	"weir.dev/weir/server/audit"
)

func TestConfigValidate(t *testing.T) {
	tests := []struct {
		name string
		set  func(*audit.Config)
		// want are parts of the error; none: there is no error.
		want []string
	}{
		{name: "defaults", set: func(*audit.Config) {}},
		{name: "a format", set: func(c *audit.Config) { c.Log.Format = "text" }, want: []string{`--audit-log-format "text": give legacy or json`}},
		{name: "sizes below zero", set: func(c *audit.Config) { c.Log.MaxSize, c.Log.MaxAge, c.Log.MaxBackups = -1, -2, -3 },
			want: []string{"--audit-log-maxsize -1 is negative", "--audit-log-maxage -2", "--audit-log-maxbackup -3"}},
		{name: "a mode", set: func(c *audit.Config) { c.Log.Mode = "async" }, want: []string{`--audit-log-mode "async": give batch, blocking, blocking-strict`}},
		{name: "a batch", set: func(c *audit.Config) { c.Webhook.Batch.BufferSize, c.Webhook.Batch.MaxBatchSize = -1, -1 },
			want: []string{"--audit-webhook-batch-buffer-size -1", "--audit-webhook-batch-max-size -1"}},
		{name: "a batch that is not used", set: func(c *audit.Config) { c.Log.Batch.BufferSize = -1 }},
		{name: "a throttle", set: func(c *audit.Config) { c.Webhook.Batch.ThrottleQPS, c.Webhook.Batch.ThrottleBurst = 0, 0 },
			want: []string{"--audit-webhook-batch-throttle-qps 0", "--audit-webhook-batch-throttle-burst 0"}},
		{name: "truncation", set: func(c *audit.Config) { c.Log.Truncate.MaxEventSize = -1 }, want: []string{"--audit-log-truncate-max-event-size -1"}},
		{name: "a batch less than an event", set: func(c *audit.Config) { c.Log.Truncate.MaxBatchSize = 1 },
			want: []string{"--audit-log-truncate-max-batch-size 1 is less than the size of an event, 102400"}},
		{name: "a backoff", set: func(c *audit.Config) { c.Webhook.InitialBackoff = -1 }, want: []string{"--audit-webhook-initial-backoff -1ns"}},
		{name: "no backend", set: func(c *audit.Config) {
			c.Log.Path, c.Log.Format, c.Webhook.ConfigFile, c.Webhook.Mode = "", "text", "", "async"
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := audit.Defaults()
			c.Log.Path, c.Webhook.ConfigFile = "-", "webhook.yaml"
			tc.set(&c)
			err := c.Validate()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}

// TestConfigComplete: what is left out is what the flags have.
func TestConfigComplete(t *testing.T) {
	var c audit.Config
	c.Complete()
	want := audit.Defaults()
	want.Log.MaxSize, want.Log.MaxAge, want.Log.MaxBackups = 0, 0, 0
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
}
