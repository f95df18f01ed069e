package envtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest/tools"
)

// patience is for a machine that has much else to do; envtest's own is 20 seconds, for a start and for an end.
const patience = 60 * time.Second

// started is a program that runs.
type started struct {
	command *exec.Cmd
	out     *output
	ended   chan error
}

// output is what a program has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts an asset. It is killed when the test ends.
func start(t *testing.T, name string, args ...string) *started {
	t.Helper()
	s := &started{command: exec.Command(filepath.Join(assetsOf(t), name), args...), out: &output{}, ended: make(chan error, 1)}
	s.command.Stdout, s.command.Stderr = s.out, s.out
	s.command.Dir = t.TempDir()
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		s.ended <- s.command.Wait()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = s.command.Process.Kill() // gone already when the test went well
		<-gone
	})
	return s
}

// healthy waits until a URL answers 200.
func (s *started) healthy(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: patience} // as envtest does
	defer client.CloseIdleConnections()
	begin := time.Now()
	for {
		resp, err := client.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				t.Logf("%s is 200 after %s", url, time.Since(begin).Round(time.Millisecond))
				return
			}
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			t.Fatalf("ended with %v: %s", err, s.out)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(begin) > patience {
			t.Fatalf("%s is not 200: %s", url, s.out)
		}
	}
}

// terminate wants that SIGTERM ends it well.
func (s *started) terminate(t *testing.T) {
	t.Helper()
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("ended with %v: %s", err, s.out)
		}
		s.ended <- err
	case <-time.After(patience):
		t.Errorf("does not end: %s", s.out)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := tools.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// TestControlPlane starts both programs with what envtest passes.
func TestControlPlane(t *testing.T) {
	t.Parallel()
	assetsOf(t)
	etcdURL := "http://" + freeAddress(t)
	etcd := start(t, "etcd", "--advertise-client-urls="+etcdURL, "--data-dir="+t.TempDir(), "--listen-client-urls="+etcdURL,
		"--listen-peer-urls=http://"+freeAddress(t), "--unsafe-no-fsync=true")
	etcd.healthy(t, etcdURL+"/health")

	certDir := t.TempDir()
	files, err := server.EnsureCertificates(certDir, nil, time.Now()) // with the names that envtest's have
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + net.JoinHostPort(host, port)
	api := start(t, "kube-apiserver", "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address="+host, "--cert-dir="+certDir,
		"--client-ca-file="+files.CAFile, "--disable-admission-plugins=ServiceAccount", "--etcd-servers="+etcdURL, "--secure-port="+port,
		"--service-account-issuer="+url+"/", "--service-account-key-file="+filepath.Join(certDir, "sa-signer.crt"),
		"--service-account-signing-key-file="+filepath.Join(certDir, "sa-signer.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--enable-admission-plugins=PodSecurity", "--profiling=false", "-v=4", "--goaway-chance=0.001")
	api.healthy(t, url+"/healthz")
	for _, asked := range []struct{ certFile, keyFile string }{{files.AdminCertFile, files.AdminKeyFile}, {}} {
		if status := namespaces(t, url, files.CAFile, asked.certFile, asked.keyFile); (status == http.StatusOK) != (asked.certFile != "") {
			t.Errorf("a client with certificate %q gets %d", asked.certFile, status)
		}
	}
	api.terminate(t)
	etcd.terminate(t)
	told := api.out.String()
	for flag, want := range map[string]string{
		"service-account-issuer": "WARN", "service-account-key-file": "WARN", "service-account-signing-key-file": "WARN", "service-cluster-ip-range": "WARN",
		"goaway-chance": "WARN", "v": "WARN", "enable-admission-plugins": "ERROR",
		"allow-privileged": "", "authorization-mode": "", "disable-admission-plugins": "", "client-ca-file": "", "profiling": "",
	} {
		found := regexp.MustCompile(`level=(\w+) msg="flag [^"]*" flag=--` + flag + ` `).FindStringSubmatch(told)
		if got := strings.Join(found, ","); want == "" && found != nil || want != "" && (found == nil || found[1] != want) {
			t.Errorf("--%s: the log says %q, want %s", flag, got, want)
		}
	}
	if strings.Contains(etcd.out.String(), "changes nothing") {
		t.Errorf("etcd says %s", etcd.out)
	}
	if entries, err := os.ReadDir(api.command.Dir); err != nil || len(entries) > 0 {
		t.Errorf("the working directory has %v, %v; want nothing", entries, err)
	}
}

// namespaces returns the status of a list by a client that trusts the authority.
func namespaces(t *testing.T, url, caFile, certFile, keyFile string) int {
	t.Helper()
	pem, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(pem)
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url + "/api/v1/namespaces")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestHelp is what envtest looks for flags in.
func TestHelp(t *testing.T) {
	t.Parallel()
	dir := assetsOf(t)
	for name, flags := range map[string]map[string]bool{"kube-apiserver": {"insecure-port": false, "secure-port": true}, "etcd": {"unsafe-no-fsync": true}} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name), "--help").CombinedOutput()
		if err != nil {
			t.Errorf("%s --help: %v", name, err)
		}
		for flag, want := range flags {
			if got := regexp.MustCompile(`(?m)^\s*--` + flag + `\b`).Match(out); got != want {
				t.Errorf("%s --help has --%s: %v, want %v", name, flag, got, want)
			}
		}
	}
}

// TestRefused are command lines that end with an error.
func TestRefused(t *testing.T) {
	t.Parallel()
	dir := assetsOf(t)
	for _, tc := range []struct{ name, program, flag, want string }{
		{"no flag", "kube-apiserver", "--secure-prot=1", "kube-apiserver: unknown flag: --secure-prot; did you mean --secure-port?"},
		{"no flag of etcd", "etcd", "--config-file=x", "etcd: unknown flag: --config-file; see `etcd --help`"},
		{"TLS", "etcd", "--cert-file=x", "--cert-file x: clients are served without TLS"},
		{"TLS of a URL", "etcd", "--listen-client-urls=https://127.0.0.1:1", "clients are served without TLS"},
		{"no certificates", "kube-apiserver", "--client-ca-file=missing.crt", "missing.crt"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			command := exec.CommandContext(ctx, filepath.Join(dir, tc.program), tc.flag)
			command.Dir = t.TempDir()
			out, err := command.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), tc.want) {
				t.Errorf("got %v and %s, want %q", err, out, tc.want)
			}
		})
	}
}

// TestPortInUse says which port.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	dir := assetsOf(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	data := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "etcd"), "--data-dir", data, "--listen-client-urls", fmt.Sprintf("http://%s", l.Addr())).CombinedOutput()
	if err == nil || !strings.Contains(string(out), l.Addr().String()) || !strings.Contains(string(out), "--listen-client-urls") {
		t.Errorf("got %v and %s", err, out)
	}
}
