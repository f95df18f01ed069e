package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"weir.dev/weir/server"
)

// serveFlags are the flags of `weir serve`. Flags that kube-apiserver has bear its names.
type serveFlags struct {
	config               server.Config
	storage              *storageFlags
	certDir, logLevel    string
	profiling, anonymous bool
	// accepted are those that kube-apiserver alone has.
	accepted *acceptedFlags
	// standIn: the program runs by the name of kube-apiserver.
	standIn bool
}

// serveCommand runs the server.
func serveCommand() *cobra.Command {
	command, _ := newServeCommand()
	return command
}

func newServeCommand() (*cobra.Command, *serveFlags) {
	f := &serveFlags{logLevel: "info", profiling: true, anonymous: true}
	config := &f.config
	command := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API, by default on an embedded etcd, on loopback",
		Long: `Serve the API. On its first start the server makes its certification authority,
a serving certificate and a kubeconfig of an administrator below --data-dir;
later starts use them again. SIGTERM drains: watches end, requests under way
are finished, then etcd is closed.

Flags of kube-apiserver that are not listed are accepted too, and named in the log:
they change nothing. One without which the server is less safe than it asks, as
--authorization-mode=Webhook, is refused.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			startMemory()
			level := slog.LevelInfo
			if err := level.UnmarshalText([]byte(strings.ToUpper(f.logLevel))); err != nil {
				return fmt.Errorf("--log-level %q: give debug, info, warn or error", f.logLevel)
			}
			config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			klog.SetSlogLogger(config.Logger) // of upstream's libraries, such as the KMS client
			config.DisableProfiling = !f.profiling
			config.DisableAnonymous = !f.anonymous
			if err := f.storage.complete(command.Flags(), config.Logger); err != nil {
				return err
			}
			if err := f.accepted.complete(kubeAPIServerRules(), config.Logger, !f.standIn); err != nil {
				return err
			}
			f.completeFiles(command.Flags().Changed)
			dataDir, err := filepath.Abs(cmp.Or(config.DataDir, server.DefaultDataDir)) // the KUBECONFIG that is printed is for any directory
			if err != nil {
				return fmt.Errorf("--data-dir: %w", err)
			}
			config.DataDir = dataDir
			s, err := server.New(command.Context(), *config)
			if err != nil {
				return err
			}
			background, stop := context.WithCancel(command.Context())
			var owned sync.WaitGroup
			defer owned.Wait()
			defer stop()
			owned.Go(func() {
				releaseStartup(background, s.Ready, startupTime)
				tuneMemory(background)
			})
			fmt.Fprintf(command.OutOrStdout(), "serving on %s\nexport KUBECONFIG=%s\n", s.URL(), s.Kubeconfig())
			return s.Run(command.Context())
		},
	}
	flags := command.Flags()
	f.storage = addStorageFlags(flags, &config.Storage)
	flags.StringVar(&config.DataDir, "data-dir", "./weir-data", "directory of the embedded etcd, certificates, kubeconfig and caches")
	flags.StringVar(&config.EmbeddedEtcdListen, "embedded-etcd-listen", "", "HOST:PORT at which etcdctl reaches the embedded etcd, without TLS; empty: it is reached in process only")
	flags.Int64Var(&config.EmbeddedEtcdQuotaBytes, "embedded-etcd-quota-backend-bytes", server.DefaultEmbeddedEtcdQuotaBytes,
		"size of the embedded etcd's database from which it takes no writes until there is room: then history is dropped and the database defragmented; from 16 MiB to 1 TiB")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "let the embedded etcd lose writes when the machine crashes; for tests")
	flags.StringSliceVar(&config.EtcdServers, "etcd-servers", nil, "endpoints of an external etcd, comma separated; none: the embedded one")
	flags.StringVar(&config.EtcdCAFile, "etcd-cafile", "", "certificate authority of the external etcd")
	flags.StringVar(&config.EtcdCertFile, "etcd-certfile", "", "client certificate for the external etcd")
	flags.StringVar(&config.EtcdKeyFile, "etcd-keyfile", "", "key of the client certificate for the external etcd")
	flags.StringVar(&config.EtcdPrefix, "etcd-prefix", server.DefaultEtcdPrefix, "prefix of all keys in etcd")
	flags.StringVar(&config.EncryptionProviderConfig, "encryption-provider-config", "", "file of an EncryptionConfiguration: what is encrypted in etcd, and how; read again when it changes")
	flags.StringVar(&config.BindAddress, "bind-address", server.DefaultBindAddress, "IP address to listen on")
	flags.IntVar(&config.SecurePort, "secure-port", server.DefaultSecurePort, "port of HTTPS; 0: any free one")
	flags.StringVar(&config.HTTP2Server, "http2-server", server.HTTP2Weir, "who serves HTTP/2: weir, this project's own, which takes less CPU, or standard, the Go library's")
	flags.StringVar(&config.TLSCertFile, "tls-cert-file", "", "serving certificate; empty: one of the server's own authority")
	flags.StringVar(&config.TLSPrivateKeyFile, "tls-private-key-file", "", "key of the serving certificate")
	flags.StringVar(&f.certDir, "cert-dir", "", "directory of the serving certificate, apiserver.crt, and its key, apiserver.key, where --tls-cert-file is not given and they are there")
	flags.StringVar(&config.ClientCAFile, "client-ca-file", "", "authority of client certificates, beside the server's own")
	flags.StringVar(&config.TokenAuthFile, "token-auth-file", "", `CSV file of token,user,uid,"group1,group2"`)
	flags.BoolVar(&f.anonymous, "anonymous-auth", f.anonymous, "take requests without credentials as of system:anonymous; false: answer them with 401")
	flags.StringVar(&config.PolicyDir, "policy-dir", "", "directory of admission policies and bindings of admissionregistration.k8s.io in YAML files, in force beside those that are stored; no client sees them; read again when it changes")
	flags.BoolVar(&config.SuspendPolicies, "suspend-policies", false, "take all admission policies out of force, to repair those that lock you out")
	addRecordFlags(flags, &config.Record)
	addAuditFlags(flags, &config.Audit)
	flags.Uint64Var(&config.ModuleRequestFuel, "module-request-fuel", server.DefaultModuleRequestFuel, "instructions that the modules of one request may use together")
	flags.DurationVar(&config.ModuleRequestTimeout, "module-request-timeout", server.DefaultModuleRequestTimeout, "time that the modules of one request may take together")
	flags.StringVar(&config.ModuleDir, "module-dir", "", "directory below which spec.source.file of a Module is (default <data-dir>/modules)")
	flags.StringVar(&config.ModuleSources.CAFile, "module-ca-file", "", "authorities that are trusted beside the system's where a Module is fetched from")
	flags.IntVar(&config.MaxRequestsInFlight, "max-requests-inflight", 400, "most reads at one time, watches apart; negative: no limit")
	flags.IntVar(&config.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", 200, "most writes at one time; negative: no limit")
	flags.DurationVar(&config.RequestTimeout, "request-timeout", server.DefaultRequestTimeout, "bound of a request that is not a watch")
	flags.DurationVar(&config.ShutdownTimeout, "shutdown-timeout", server.DefaultShutdownTimeout, "bound of the drain at SIGTERM")
	flags.BoolVar(&f.profiling, "profiling", f.profiling, "serve profiles of the process at /debug/pprof to those who are authorized")
	flags.StringVar(&f.logLevel, "log-level", f.logLevel, "debug, info, warn or error")
	f.accepted = addAcceptedFlags(flags, kubeAPIServerFlags)
	return command, f
}
