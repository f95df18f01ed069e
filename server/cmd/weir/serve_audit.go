package main

import (
	"strings"

	"github.com/spf13/pflag"

	"weir.dev/weir/server/audit"
)

// addAuditFlags adds kube-apiserver's flags about the audit log, with its defaults. Events are of audit.k8s.io/v1, the only
// version that there is.
func addAuditFlags(flags *pflag.FlagSet, config *audit.Config) {
	*config = audit.Defaults()
	flags.StringVar(&config.PolicyFile, "audit-policy-file", "", "file of a Policy of audit.k8s.io/v1: what is audited, and at which level; read at the start")
	log := &config.Log
	flags.StringVar(&log.Path, "audit-log-path", "", "file that audit events are written to; -: standard output")
	flags.StringVar(&log.Format, "audit-log-format", log.Format, "format of the audit log: "+strings.Join(audit.Formats(), ", "))
	flags.IntVar(&log.MaxSize, "audit-log-maxsize", log.MaxSize, "size in MiB at which the audit log gets a name with a timestamp and another one is begun; 0: it grows")
	flags.IntVar(&log.MaxAge, "audit-log-maxage", log.MaxAge, "days that such files are kept; 0: for ever")
	flags.IntVar(&log.MaxBackups, "audit-log-maxbackup", log.MaxBackups, "how many such files are kept; 0: all")
	flags.BoolVar(&log.Compress, "audit-log-compress", log.Compress, "compress such files")
	addDeliveryFlags(flags, "log", &log.Delivery)
	webhook := &config.Webhook
	flags.StringVar(&webhook.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a service that audit events are sent to")
	flags.DurationVar(&webhook.InitialBackoff, "audit-webhook-initial-backoff", webhook.InitialBackoff, "time before events are sent again, the first time")
	addDeliveryFlags(flags, "webhook", &webhook.Delivery)
}

// addDeliveryFlags adds those that the log and the webhook both have.
func addDeliveryFlags(flags *pflag.FlagSet, backend string, d *audit.Delivery) {
	name := func(flag string) string { return "audit-" + backend + "-" + flag }
	flags.StringVar(&d.Mode, name("mode"), d.Mode, "blocking: requests wait until their events are written; blocking-strict: and fail where the first cannot be; batch: events are written later, and lost where there are too many")
	flags.IntVar(&d.Batch.BufferSize, name("batch-buffer-size"), d.Batch.BufferSize, "events that wait at most, in mode batch")
	flags.IntVar(&d.Batch.MaxBatchSize, name("batch-max-size"), d.Batch.MaxBatchSize, "events that are written together at most, in mode batch")
	flags.DurationVar(&d.Batch.MaxBatchWait, name("batch-max-wait"), d.Batch.MaxBatchWait, "time after which fewer are written, in mode batch")
	flags.BoolVar(&d.Batch.ThrottleEnable, name("batch-throttle-enable"), d.Batch.ThrottleEnable, "bound the rate of batches, in mode batch")
	flags.Float32Var(&d.Batch.ThrottleQPS, name("batch-throttle-qps"), d.Batch.ThrottleQPS, "batches a second, in mode batch")
	flags.IntVar(&d.Batch.ThrottleBurst, name("batch-throttle-burst"), d.Batch.ThrottleBurst, "batches at once after a pause, in mode batch")
	flags.BoolVar(&d.TruncateEnabled, name("truncate-enabled"), d.TruncateEnabled, "leave objects out of events that are too large, and drop those that still are")
	flags.Int64Var(&d.Truncate.MaxBatchSize, name("truncate-max-batch-size"), d.Truncate.MaxBatchSize, "bytes of a batch, with truncate-enabled")
	flags.Int64Var(&d.Truncate.MaxEventSize, name("truncate-max-event-size"), d.Truncate.MaxEventSize, "bytes of an event, with truncate-enabled")
}
