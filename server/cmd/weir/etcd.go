package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/server/storage/etcd3"
)

// etcdName is the name by which the program is an etcd.
const etcdName = "etcd"

//go:embed flags_etcd.txt
var etcdFlags string

// etcdCommand is the embedded etcd by itself, by the name of etcd: one member, without TLS, for tests.
func etcdCommand() *cobra.Command {
	var config etcd3.EmbeddedConfig
	var clientURLs []string
	var accepted *acceptedFlags
	command := &cobra.Command{
		Use:   etcdName,
		Short: "Serve the etcd that is embedded in Weir, in place of etcd",
		Long: `Serve the etcd that is embedded in Weir, in place of etcd, as envtest of
controller-runtime starts it: one member, for clients without TLS. All flags of
etcd are accepted; one that is given and changes nothing here is named in the log.`,
		Version: versionText(),
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
			if err := accepted.complete(etcdRules(), config.Logger, true); err != nil {
				return err
			}
			return serveEtcd(command.Context(), config, clientURLs)
		},
	}
	command.SetVersionTemplate("{{.Version}}")
	flags := command.Flags()
	flags.StringVar(&config.DataDir, "data-dir", "default.etcd", "directory of the data")
	flags.StringSliceVar(&clientURLs, "listen-client-urls", []string{"http://127.0.0.1:2379"}, "where clients are served, comma separated: http://HOST:PORT")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "lose writes when the machine crashes; for tests")
	flags.Int64Var(&config.QuotaBytes, "quota-backend-bytes", etcd3.DefaultQuotaBytes, "size of the database from which no writes are taken until there is room")
	accepted = addAcceptedFlags(flags, etcdFlags)
	return program(command)
}

// etcdRules are of the flags of etcd of which there is more to say than that they change nothing.
func etcdRules() map[string]flagRule {
	// What envtest passes, and what a cluster of one member is given beside it.
	rules := map[string]flagRule{}
	for _, name := range []string{"advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster-state", "initial-cluster-token", "name"} {
		rules[name] = always(met, "")
	}
	rules["initial-cluster"] = func(f *acceptedFlag) (disregard, string) {
		if len(f.list()) > 1 {
			return unsafe, "there is one member"
		}
		return met, ""
	}
	for _, name := range []string{"discovery", "discovery-srv", "discovery-endpoints"} {
		rules[name] = always(unsafe, "there is one member")
	}
	for _, name := range []string{"cert-file", "key-file", "trusted-ca-file", "listen-metrics-urls", "listen-client-http-urls"} {
		rules[name] = always(unsafe, "clients are served without TLS, at --listen-client-urls alone")
	}
	rules["client-cert-auth"] = asIf("false", unsafe, "clients are served without TLS")
	rules["auto-tls"] = asIf("false", unsafe, "clients are served without TLS")
	return rules
}

// serveEtcd serves until ctx is done.
func serveEtcd(ctx context.Context, config etcd3.EmbeddedConfig, clientURLs []string) (err error) {
	addresses, err := clientAddresses(clientURLs)
	if err != nil {
		return err
	}
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // closed already where the front has served
		}
	}()
	for _, address := range addresses {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("--listen-client-urls: %w", err)
		}
		listeners = append(listeners, l)
	}
	config.ListenClient = "127.0.0.1:0"
	embedded, err := etcd3.StartEmbedded(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, embedded.Close()) }()
	config.Logger.InfoContext(ctx, "ready", "clientURLs", clientURLs, "dataDir", config.DataDir)
	front := &etcdFront{etcd: embedded, logger: config.Logger}
	return front.serve(ctx, listeners)
}

// clientAddresses returns HOST:PORT of each URL.
func clientAddresses(urls []string) ([]string, error) {
	var addresses []string
	for _, text := range urls {
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("--listen-client-urls: %w", err)
		case u.Scheme != "http" || u.Port() == "" || strings.Trim(u.Path, "/") != "":
			return nil, fmt.Errorf("--listen-client-urls %q: give http://HOST:PORT, clients are served without TLS", text)
		}
		addresses = append(addresses, u.Host)
	}
	if len(addresses) == 0 {
		return nil, errors.New("--listen-client-urls is empty: give http://HOST:PORT")
	}
	return addresses, nil
}
