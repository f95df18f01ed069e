package auth

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// authoritiesPeriod is how often Authorities look at their files, upstream's period for a client CA file.
const authoritiesPeriod = time.Minute

// Authorities are the certificates that sign client certificates, from PEM files.
type Authorities struct {
	files  []string
	logger *slog.Logger
	pool   atomic.Pointer[x509.CertPool]
	// content of the files, as the pool has it. Only the goroutine of Run touches it after the start.
	content []byte
}

// NewAuthorities reads the files. One that cannot be read, or holds no certificate, is an error.
func NewAuthorities(logger *slog.Logger, files ...string) (*Authorities, error) {
	a := &Authorities{files: files, logger: logger}
	_, err := a.reload()
	return a, err
}

// Pool returns the certificates in force. The caller must not add to it.
func (a *Authorities) Pool() *x509.CertPool { return a.pool.Load() }

// VerifyOptions returns what client certificates are verified with.
func (a *Authorities) VerifyOptions() (x509.VerifyOptions, bool) {
	return x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// Run reads the files again, once a minute, until ctx is done. Files that are broken leave what was read before.
func (a *Authorities) Run(ctx context.Context) {
	ticker := time.NewTicker(authoritiesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := a.reload()
		if err != nil {
			a.logger.WarnContext(ctx, "client authorities cannot be read; those read before stay", "error", err)
		} else if changed {
			a.logger.InfoContext(ctx, "client authorities changed", "files", a.files)
		}
	}
}

// reload reports whether the files say something else than before.
func (a *Authorities) reload() (bool, error) {
	pool := x509.NewCertPool()
	var content []byte
	var errs []error
	for _, name := range a.files {
		data, err := os.ReadFile(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !pool.AppendCertsFromPEM(data) {
			errs = append(errs, fmt.Errorf("%s holds no certificate in PEM", name))
		}
		content = append(append(content, data...), 0)
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("client authorities: %w", err)
	}
	if a.pool.Load() != nil && bytes.Equal(content, a.content) {
		return false, nil
	}
	a.content = content
	a.pool.Store(pool)
	return true, nil
}
