package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir.dev/weir/server"
)

// kubeAPIServer is the name by which the program is a kube-apiserver.
const kubeAPIServer = "kube-apiserver"

//go:embed flags_kube-apiserver.txt
var kubeAPIServerFlags string

// standInShutdownTimeout is what envtest's patience, 20 seconds, leaves room for.
const standInShutdownTimeout = "10s"

// apiServerCommand is `weir serve` by the name of kube-apiserver: it starts with whatever flags that one does, and has its
// files in --cert-dir.
func apiServerCommand() *cobra.Command {
	command, flags := newServeCommand()
	command.Use = kubeAPIServer
	command.Short = "Serve the API of Kubernetes with Weir, in place of kube-apiserver"
	command.Long = `Serve the API of Kubernetes with Weir, in place of kube-apiserver, as envtest of
controller-runtime starts it. All flags of kube-apiserver are accepted; one that
is given and changes nothing here is named in the log.`
	command.Version = "Kubernetes " + server.KubernetesVersion
	command.SetVersionTemplate("{{.Version}}\n")
	flags.standIn = true
	timeout := command.Flags().Lookup("shutdown-timeout")
	timeout.DefValue = standInShutdownTimeout
	_ = timeout.Value.Set(standInShutdownTimeout) // it is a duration
	return program(command)
}

// program makes a command the whole of what is run.
func program(command *cobra.Command) *cobra.Command {
	command.SilenceUsage, command.SilenceErrors = true, true
	command.CompletionOptions.DisableDefaultCmd = true
	command.SetFlagErrorFunc(flagError)
	return command
}

// completeFiles says where files are, as --cert-dir has it.
func (f *serveFlags) completeFiles(changed func(flag string) bool) {
	if f.certDir == "" {
		return
	}
	if f.standIn && !changed("data-dir") {
		f.config.DataDir = filepath.Join(f.certDir, "weir")
	}
	cert, key := filepath.Join(f.certDir, "apiserver.crt"), filepath.Join(f.certDir, "apiserver.key")
	if f.config.TLSCertFile == "" && f.config.TLSPrivateKeyFile == "" && (exists(cert) || exists(key)) {
		f.config.TLSCertFile, f.config.TLSPrivateKeyFile = cert, key
	}
}

// kubeAPIServerRules are of the flags of kube-apiserver of which there is more to say than that they change nothing.
func kubeAPIServerRules() map[string]flagRule {
	const (
		serviceAccounts = "no service account tokens are issued or taken"
		kubelets        = "kubelets are not called"
		authorization   = "requests are authorized by RBAC"
		webhookMode     = "no webhook is asked whether a request is authorized"
	)
	rules := map[string]flagRule{
		"authorization-mode":                   authorizationMode,
		"authorization-config":                 always(unsafe, authorization),
		"authorization-webhook-config-file":    always(unsafe, webhookMode),
		"authorization-policy-file":            always(missed, authorization),
		"authentication-config":                always(unsafe, "who a client is, its certificate or a token file says, and --anonymous-auth is for all paths"),
		"enable-admission-plugins":             admissionPlugins,
		"admission-control":                    admissionPlugins,
		"disable-admission-plugins":            disabledPlugins,
		"admission-control-config-file":        always(unsafe, "the admission plugins that it is for are not there"),
		"tls-min-version":                      tlsMinVersion,
		"tls-cipher-suites":                    always(unsafe, "the cipher suites are those that Go takes to be safe"),
		"tls-curve-preferences":                always(unsafe, "the key exchanges are those that Go takes to be safe"),
		"tls-sni-cert-key":                     always(missed, "there is one serving certificate"),
		"disable-http2-serving":                asIf("false", unsafe, "HTTP/2 is served"),
		"allow-privileged":                     asIf("true", unsafe, "privileged containers are not refused; a policy can do that"),
		"strict-transport-security-directives": always(unsafe, "answers have no such header"),
		"audit-log-version":                    asIf("audit.k8s.io/v1", missed, "events are of audit.k8s.io/v1"),
		"audit-webhook-version":                asIf("audit.k8s.io/v1", missed, "events are of audit.k8s.io/v1"),
		"enable-priority-and-fairness":         asIf("false", missed, "requests are bounded by --max-requests-inflight and --max-mutating-requests-inflight"),
		"enable-bootstrap-token-auth":          asIf("false", missed, "tokens are those of --token-auth-file"),
		"service-cluster-ip-range":             always(missed, "services get no addresses"),
		"service-node-port-range":              always(missed, "services get no ports"),
		"logging-format":                       asIf("text", missed, "the log is text"),
		"v":                                    always(missed, "--log-level says how much is logged"),
		"vmodule":                              always(missed, "--log-level says how much is logged"),
	}
	for line := range strings.Lines(kubeAPIServerFlags) {
		switch name, _, _ := strings.Cut(line, " "); {
		case rules[name] != nil:
		case strings.HasPrefix(name, "service-account-"):
			rules[name] = always(missed, serviceAccounts)
		case strings.HasPrefix(name, "kubelet-"):
			rules[name] = always(missed, kubelets)
		case strings.HasPrefix(name, "oidc-"), strings.HasPrefix(name, "authentication-token-webhook-"), strings.HasPrefix(name, "requestheader-"):
			rules[name] = always(missed, "who a client is, its certificate or a token file says")
		}
	}
	return rules
}

// authorizationMode judges by what others than RBAC would forbid: a webhook can deny, and without RBAC its roles allow
// nothing. Node, ABAC and AlwaysAllow allow more.
func authorizationMode(f *acceptedFlag) (disregard, string) {
	modes := f.list()
	switch {
	case slices.Contains(modes, "Webhook"), !slices.Contains(modes, "RBAC") && !slices.Contains(modes, "AlwaysAllow"):
		return unsafe, "requests are authorized by RBAC alone"
	case len(others(modes, "RBAC")) > 0:
		return missed, "requests are authorized by RBAC alone"
	}
	return met, ""
}

// ownPlugins are the admission plugins of kube-apiserver whose work is done here, always.
func ownPlugins() []string {
	return []string{"NamespaceLifecycle", "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}
}

func admissionPlugins(f *acceptedFlag) (disregard, string) {
	if missing := others(f.list(), append(ownPlugins(), "AlwaysAdmit")...); len(missing) > 0 {
		return unsafe, fmt.Sprintf("there is no admission plugin %s; a policy may do in its place", strings.Join(missing, ", "))
	}
	return met, ""
}

func disabledPlugins(f *acceptedFlag) (disregard, string) {
	given := f.list()
	if absent := others(given, ownPlugins()...); len(absent) < len(given) {
		return missed, fmt.Sprintf("the work of %s is always done; see --suspend-policies", strings.Join(others(given, absent...), ", "))
	}
	return met, ""
}

func tlsMinVersion(f *acceptedFlag) (disregard, string) {
	const why = "clients may speak TLS from 1.2 on"
	switch f.values[len(f.values)-1] {
	case "VersionTLS12":
		return met, ""
	case "VersionTLS10", "VersionTLS11":
		return missed, why
	}
	return unsafe, why
}
