package server

import (
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"weir.dev/weir/host/source"
)

// ModuleSourceConfig says how modules are fetched over the network. The zero value trusts the system's authorities.
type ModuleSourceConfig struct {
	// CAFile has authorities in PEM that are trusted beside the system's. It is read at the start.
	CAFile string
	// RefetchInterval: see loader.Config.
	RefetchInterval time.Duration
}

// client returns what fetches modules.
func (c *ModuleSourceConfig) client() (*source.Client, error) {
	cfg := source.Config{UserAgent: "weir"}
	if c.CAFile != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("the system's authorities: %w", err)
		}
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--module-ca-file: %w", err)
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--module-ca-file: %s has no certificate in PEM", c.CAFile)
		}
		cfg.Roots = roots
	}
	return source.NewClient(cfg)
}
