package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	webhookclient "k8s.io/apiserver/pkg/util/webhook"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"
)

// Audit knows what is to be audited and writes the events. A nil *Audit audits nothing.
type Audit struct {
	policy  audit.PolicyRuleEvaluator
	backend audit.Backend
	file    io.Closer // nil: standard output, or no file
	// most bytes of an object are recorded.
	most int

	stop      chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Open reads the policy, opens the log and starts the backends. It returns nil where nothing is to be audited: without a
// policy, or with one and nowhere to write to, of which the logger is told, as an operator hardly means it. What Open
// returns must be Closed.
func Open(c Config, logger *slog.Logger) (*Audit, error) {
	c.Complete()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	written := c.Log.Path != "" || c.Webhook.ConfigFile != ""
	switch {
	case c.PolicyFile == "" && written:
		logger.Warn("nothing is audited: --audit-log-path or --audit-webhook-config-file is given, and no --audit-policy-file")
		return nil, nil
	case c.PolicyFile == "":
		return nil, nil
	}
	rules, err := policy.LoadPolicyFromFile(c.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	if !written {
		logger.Warn("nothing is audited: --audit-policy-file is given, and neither --audit-log-path nor --audit-webhook-config-file")
		return nil, nil
	}
	a := &Audit{policy: policy.NewPolicyRuleEvaluator(rules), most: c.mostObjectBytes(), stop: make(chan struct{})}
	var backends []audit.Backend
	if c.Log.Path != "" {
		out, err := a.openFile(&c.Log)
		if err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		backends = append(backends, c.Log.wrap(pluginlog.NewBackend(out, c.Log.Format, auditv1.SchemeGroupVersion)))
	}
	if c.Webhook.ConfigFile != "" {
		sender, err := webhook.NewBackend(c.Webhook.ConfigFile, auditv1.SchemeGroupVersion,
			webhookclient.DefaultRetryBackoffWithInitialDelay(c.Webhook.InitialBackoff), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--audit-webhook-config-file: %w", err), a.closeFile())
		}
		backends = append(backends, c.Webhook.wrap(sender))
	}
	a.backend = audit.Union(backends...)
	if err := a.backend.Run(a.stop); err != nil {
		return nil, errors.Join(fmt.Errorf("audit backend: %w", err), a.closeFile())
	}
	return a, nil
}

// openFile returns what a log is written to. It is tried at once, so that a server does not start that could not write.
func (a *Audit) openFile(c *LogConfig) (io.Writer, error) {
	if c.Path == "-" {
		return os.Stdout, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(c.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if c.MaxSize == 0 {
		a.file = f
		return f, nil
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	// Its goroutine, which compresses and removes files, sleeps until the process ends: there is no way to stop it.
	rotated := &lumberjack.Logger{Filename: c.Path, MaxSize: c.MaxSize, MaxAge: c.MaxAge, MaxBackups: c.MaxBackups, Compress: c.Compress}
	a.file = rotated
	return rotated, nil
}

// wrap puts between the requests and a backend what its Delivery says, in upstream's order.
func (d *Delivery) wrap(backend audit.Backend) audit.Backend {
	switch d.Mode {
	case ModeBatch:
		backend = newBuffered(backend, d.Batch)
	case ModeBlocking:
		backend = lenient{backend}
	}
	if d.TruncateEnabled {
		backend = truncate.NewBackend(backend, d.Truncate, auditv1.SchemeGroupVersion)
	}
	return backend
}

// lenient lets requests go on whose event could not be written. The backend has counted and logged it.
type lenient struct{ audit.Backend }

// ProcessEvents implements audit.Sink.
func (l lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}

// Close writes what is still in memory, stops the backends and closes the file. It is to be called when the requests are
// done: what comes later is lost in ModeBatch. ctx bounds it, as a webhook that does not answer is tried again for some time.
func (a *Audit) Close(ctx context.Context) error {
	if a == nil {
		return nil
	}
	a.closeOnce.Do(func() {
		close(a.stop)
		flushed := make(chan struct{})
		go func() {
			defer close(flushed)
			a.backend.Shutdown()
		}()
		select {
		case <-flushed:
		case <-ctx.Done():
			a.closeErr = fmt.Errorf("audit: events were not written in time: %w", context.Cause(ctx))
		}
		a.closeErr = errors.Join(a.closeErr, a.closeFile())
	})
	return a.closeErr
}

func (a *Audit) closeFile() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// String names the backends.
func (a *Audit) String() string { return a.backend.String() }
