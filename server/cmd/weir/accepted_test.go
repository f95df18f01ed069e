package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// namesOf are the flags of a list.
func namesOf(list string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(list) {
		if name, _, _ := strings.Cut(line, " "); name != "#" {
			names[name] = true
		}
	}
	return names
}

func TestAcceptedFlags(t *testing.T) {
	tests := []struct {
		name, args string
		// told is in the log, with its level; refused is in the error of `weir serve`, and in the log as an error where the program
		// stands in for another. Nothing is said where both are empty.
		told, refused string
	}{
		{name: "RBAC", args: "--authorization-mode=RBAC"},
		{name: "RBAC and nodes", args: "--authorization-mode=Node,RBAC", told: "flag=--authorization-mode"},
		{name: "all is allowed", args: "--authorization-mode AlwaysAllow", told: "RBAC alone"},
		{name: "all is denied", args: "--authorization-mode=AlwaysDeny", refused: "--authorization-mode AlwaysDeny: requests are authorized by RBAC alone"},
		{name: "a webhook beside RBAC", args: "--authorization-mode=RBAC --authorization-mode=Webhook", refused: "--authorization-mode RBAC,Webhook"},
		{name: "no RBAC", args: "--authorization-mode=ABAC", refused: "RBAC alone"},
		{name: "authorizers in a file", args: "--authorization-config=x", refused: "--authorization-config x"},
		{name: "authenticators in a file", args: "--authentication-config=x", refused: "--anonymous-auth"},
		{name: "OIDC", args: "--oidc-issuer-url=https://x --oidc-client-id=y", told: "flag=--oidc-issuer-url why=\"who a client is"},
		{name: "TLS 1.2", args: "--tls-min-version=VersionTLS12"},
		{name: "TLS 1.0", args: "--tls-min-version=VersionTLS10", told: "from 1.2 on"},
		{name: "TLS 1.3", args: "--tls-min-version=VersionTLS13", refused: "from 1.2 on"},
		{name: "ciphers", args: "--tls-cipher-suites=x", refused: "cipher suites"},
		{name: "plugins that are here", args: "--enable-admission-plugins=NamespaceLifecycle,MutatingAdmissionPolicy"},
		{name: "a plugin that is not", args: "--enable-admission-plugins=NamespaceLifecycle,PodSecurity,NodeRestriction", refused: "no admission plugin PodSecurity, NodeRestriction"},
		{name: "plugins by the old flag", args: "--admission-control=AlwaysDeny", refused: "no admission plugin AlwaysDeny"},
		{name: "none of a plugin that is not", args: "--disable-admission-plugins=ServiceAccount,LimitRanger"},
		{name: "none of a plugin that is here", args: "--disable-admission-plugins=ServiceAccount,NamespaceLifecycle", told: "the work of NamespaceLifecycle is always done"},
		{name: "privileged", args: "--allow-privileged"},
		{name: "not privileged", args: "--allow-privileged=false", refused: "privileged containers are not refused"},
		{name: "a bool without a value", args: "--enable-aggregator-routing --bind-address=127.0.0.1", told: "flag=--enable-aggregator-routing"},
		{name: "verbosity", args: "-v 4", told: "flag=--v"},
		{name: "no rule", args: "--external-hostname=x", told: "weir has nothing like it"},
		{name: "HTTP/1.1 alone", args: "--disable-http2-serving", refused: "HTTP/2 is served"},
		{name: "one that is weir's too", args: "--client-ca-file=x"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, standIn := range []bool{false, true} {
				command, f := newServeCommand()
				if err := command.ParseFlags(strings.Fields(tc.args)); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				err := f.accepted.complete(kubeAPIServerRules(), slog.New(slog.NewTextHandler(&log, nil)), !standIn)
				said := log.String()
				switch {
				case tc.refused == "" && err != nil:
					t.Errorf("refused: %v", err)
				case tc.refused != "" && !standIn && (err == nil || !strings.Contains(err.Error(), tc.refused)):
					t.Errorf("got %v, want %q", err, tc.refused)
				case tc.refused != "" && standIn && (err != nil || !strings.Contains(said, "level=ERROR")):
					t.Errorf("got %v and %q, want an error in the log", err, said)
				case tc.told != "" && (!strings.Contains(said, tc.told) || !strings.Contains(said, "level=WARN")):
					t.Errorf("the log says %q, want %q", said, tc.told)
				case tc.told == "" && tc.refused == "" && said != "":
					t.Errorf("the log says %q, want nothing", said)
				}
			}
		})
	}
}

// Rules are of flags that the other program has, and that are not this one's own.
func TestFlagRules(t *testing.T) {
	serve, apiServer := newServeCommand()
	for name, tc := range map[string]struct {
		list  string
		least int
		rules map[string]flagRule
		own   *pflag.FlagSet
	}{
		kubeAPIServer: {kubeAPIServerFlags, 160, kubeAPIServerRules(), serve.Flags()},
		etcdName:      {etcdFlags, 100, etcdRules(), etcdCommand().Flags()},
	} {
		names := namesOf(tc.list)
		if len(names) < tc.least {
			t.Errorf("%s has %d flags only", name, len(names))
		}
		for flag := range names {
			if flag != "version" && tc.own.Lookup(flag) == nil {
				t.Errorf("--%s of %s is not accepted", flag, name)
			}
		}
		for flag := range tc.rules {
			if f := tc.own.Lookup(flag); !names[flag] || f == nil || !f.Hidden {
				t.Errorf("the rule of --%s is of no flag that %s alone has", flag, name)
			}
		}
	}
	if len(apiServer.accepted.flags) < 80 {
		t.Errorf("%d flags are accepted only", len(apiServer.accepted.flags))
	}
}

// Help names what has a meaning here.
func TestServeHelp(t *testing.T) {
	out, _, err := weir(t, "serve", "--help")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "--cert-dir") || strings.Contains(out, "--oidc") {
		t.Errorf("got %s", out)
	}
	_, _, err = weir(t, "serve", "--data-dir", t.TempDir(), "--secure-port", "0", "--enable-admission-plugins=PodSecurity", "--tls-min-version=VersionTLS13")
	if err == nil || !strings.Contains(err.Error(), "PodSecurity") || !strings.Contains(err.Error(), "VersionTLS13") {
		t.Errorf("got %v, want both flags", err)
	}
	if _, _, err = weir(t, "serve", "--no-such-flag"); err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v", err)
	}
}
