package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"time"

	"weir.dev/weir/host"
	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/recording"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/value/encryption"
)

// Defaults of Config.
const (
	DefaultDataDir         = "weir-data"
	DefaultBindAddress     = "127.0.0.1"
	DefaultSecurePort      = 6443
	DefaultShutdownTimeout = 20 * time.Second
	DefaultRequestTimeout  = time.Minute
	// DefaultModuleRequestFuel is that of one call too, as few requests have more than one module.
	DefaultModuleRequestFuel    = host.DefaultFuel
	DefaultModuleRequestTimeout = 2 * host.DefaultTimeout
	DefaultEtcdPrefix           = "/registry"
)

// Config says how a server runs. The zero value runs on an embedded etcd in
// DefaultDataDir, on loopback.
type Config struct {
	// DataDir holds the embedded etcd, certificates, the admin's kubeconfig and caches. Default DefaultDataDir.
	DataDir string
	// EmbeddedEtcdListen is HOST:PORT at which etcdctl reaches the embedded etcd; "": in process only.
	EmbeddedEtcdListen string
	// EmbeddedEtcdQuotaBytes is the size of the embedded etcd's database from which it takes no writes, until there is room
	// again: history is dropped then and the database defragmented. At least MinEmbeddedEtcdQuotaBytes, 1 TiB
	// at most. Default DefaultEmbeddedEtcdQuotaBytes.
	EmbeddedEtcdQuotaBytes int64
	// UnsafeNoFsync lets the embedded etcd lose writes when the machine crashes. For tests.
	UnsafeNoFsync bool

	// EtcdServers are the endpoints of an external etcd; none: the embedded one.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are for TLS to the external etcd.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// EtcdPrefix of all keys. Default DefaultEtcdPrefix.
	EtcdPrefix string

	// Storage says more about etcd, and how resources are cached.
	Storage StorageConfig

	// EncryptionProviderConfig is an EncryptionConfiguration: what is encrypted in etcd, and how. It is read again
	// when it changes. "": nothing is encrypted.
	EncryptionProviderConfig string
	encryptionIntervals      encryption.Intervals // for tests

	// BindAddress to listen on. Default DefaultBindAddress.
	BindAddress string
	// SecurePort to listen on; 0: any free one, see Server.URL.
	SecurePort int
	// HTTP2Server says who serves HTTP/2: HTTP2Weir or HTTP2Standard. Default HTTP2Weir.
	HTTP2Server string
	// TLSCertFile and TLSPrivateKeyFile are the serving certificate. Default: one of the server's own authority.
	TLSCertFile, TLSPrivateKeyFile string
	// ClientCAFile signs the certificates of clients, beside the server's own authority.
	ClientCAFile string
	// TokenAuthFile is a CSV of token,user,uid[,"group,…"].
	TokenAuthFile string
	// DisableAnonymous refuses requests without credentials with 401 instead of asking RBAC about system:anonymous.
	DisableAnonymous bool

	// DisableProfiling takes /debug/pprof away from those who are authorized for it.
	DisableProfiling bool

	// ModuleDir is the directory that source.file of a Module is below. Default <DataDir>/modules.
	ModuleDir string
	// ModuleSources says how modules are fetched over the network.
	ModuleSources ModuleSourceConfig

	// ModuleRequestFuel and ModuleRequestTimeout bound what the modules of one request may use together. Defaults
	// DefaultModuleRequestFuel and DefaultModuleRequestTimeout.
	ModuleRequestFuel    uint64
	ModuleRequestTimeout time.Duration

	// PolicyDir has admission policies and their bindings in files: they are in force beside those that are stored, and
	// no client can change them. It is read again when it changes. "": there is none.
	PolicyDir string
	// SuspendPolicies takes all admission policies out of force: for whoever has locked himself out.
	SuspendPolicies bool
	// Record keeps admission requests with what the policies said of them, for `weir policy replay`. Its File, MaxBytes,
	// Backups, Redact and Exclude are the user's. Without a File, nothing is recorded.
	Record recording.Config

	// Audit says which requests are audited, and where the events go. Without a PolicyFile, none is.
	Audit audit.Config

	// MaxRequestsInFlight and MaxMutatingRequestsInFlight: see filters.Config.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int
	// RequestTimeout bounds a request. Default DefaultRequestTimeout.
	RequestTimeout time.Duration
	// OpeningPatience is how long after its start requests may wait for what decides on them. Default DefaultOpeningPatience.
	OpeningPatience time.Duration
	// ShutdownTimeout bounds the drain. Default DefaultShutdownTimeout.
	ShutdownTimeout time.Duration

	// Logger. Default: text to standard error.
	Logger *slog.Logger
}

// Complete sets defaults.
func (c *Config) Complete() {
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir
	}
	if c.BindAddress == "" {
		c.BindAddress = DefaultBindAddress
	}
	if c.EtcdPrefix == "" {
		c.EtcdPrefix = DefaultEtcdPrefix
	}
	if c.EtcdPrefix[0] == '/' {
		c.EtcdPrefix = path.Clean(c.EtcdPrefix)
	}
	if c.ModuleDir == "" {
		c.ModuleDir = filepath.Join(c.DataDir, "modules")
	}
	if c.ModuleRequestFuel == 0 {
		c.ModuleRequestFuel = DefaultModuleRequestFuel
	}
	if c.ModuleRequestTimeout == 0 {
		c.ModuleRequestTimeout = DefaultModuleRequestTimeout
	}
	if c.HTTP2Server == "" {
		c.HTTP2Server = HTTP2Weir
	}
	c.Storage.complete()
	c.Audit.Complete()
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	if c.OpeningPatience == 0 {
		c.OpeningPatience = DefaultOpeningPatience
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = DefaultShutdownTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	c.Logger = quietOutages(c.Logger)
}

// Validate returns everything that is wrong with c, in the terms of the flags of `weir serve`.
func (c *Config) Validate() error {
	var errs []error
	if net.ParseIP(c.BindAddress) == nil {
		errs = append(errs, fmt.Errorf("--bind-address %q is not an IP address", c.BindAddress))
	}
	if c.SecurePort < 0 || c.SecurePort > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port %d is not a port: give 1 to 65535, or 0 for any", c.SecurePort))
	}
	if c.HTTP2Server != "" && c.HTTP2Server != HTTP2Weir && c.HTTP2Server != HTTP2Standard {
		errs = append(errs, fmt.Errorf("--http2-server %q: give %s or %s", c.HTTP2Server, HTTP2Weir, HTTP2Standard))
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file go together"))
	}
	if c.ModuleRequestFuel > 1<<53 || c.ModuleRequestTimeout < 0 {
		errs = append(errs, errors.New("--module-request-fuel or --module-request-timeout is out of range"))
	}
	if err := c.Storage.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Audit.Validate(); err != nil {
		errs = append(errs, err)
	}
	if (c.EtcdCertFile == "") != (c.EtcdKeyFile == "") {
		errs = append(errs, errors.New("--etcd-certfile and --etcd-keyfile go together"))
	}
	external := len(c.EtcdServers)+len(c.Storage.ServersOverrides) > 0
	if !external && (c.EtcdCAFile != "" || c.EtcdCertFile != "") {
		errs = append(errs, errors.New("--etcd-cafile and --etcd-certfile are for an external etcd: give --etcd-servers too"))
	}
	for _, endpoint := range c.EtcdServers {
		if err := etcd3.ValidEndpoint(endpoint); err != nil {
			errs = append(errs, fmt.Errorf("--etcd-servers: %w", err))
		}
	}
	if len(c.EtcdServers) > 0 && c.EmbeddedEtcdListen != "" {
		errs = append(errs, errors.New("--embedded-etcd-listen is for the embedded etcd: leave out --etcd-servers"))
	}
	switch quota := c.EmbeddedEtcdQuotaBytes; {
	case quota != 0 && quota < MinEmbeddedEtcdQuotaBytes:
		errs = append(errs, fmt.Errorf("--embedded-etcd-quota-backend-bytes %d: give %d bytes at least", quota, MinEmbeddedEtcdQuotaBytes))
	case len(c.EtcdServers) > 0 && quota != 0 && quota != DefaultEmbeddedEtcdQuotaBytes:
		errs = append(errs, errors.New("--embedded-etcd-quota-backend-bytes is for the embedded etcd: leave out --etcd-servers"))
	}
	if c.EtcdPrefix != "" && (c.EtcdPrefix[0] != '/' || path.Clean(c.EtcdPrefix) == "/") {
		errs = append(errs, fmt.Errorf("--etcd-prefix %q must begin with a slash, and be more than that", c.EtcdPrefix))
	}
	if c.Record.File != "" {
		if err := c.Record.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	for flag, name := range map[string]string{
		"--tls-cert-file": c.TLSCertFile, "--tls-private-key-file": c.TLSPrivateKeyFile, "--client-ca-file": c.ClientCAFile,
		"--token-auth-file": c.TokenAuthFile, "--etcd-cafile": c.EtcdCAFile, "--etcd-certfile": c.EtcdCertFile, "--etcd-keyfile": c.EtcdKeyFile,
		"--encryption-provider-config": c.EncryptionProviderConfig, "--module-ca-file": c.ModuleSources.CAFile,
	} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	return errors.Join(errs...)
}
