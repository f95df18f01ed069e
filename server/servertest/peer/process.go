package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir.dev/weir/server/servertest/tools"
)

// binaries of what is run.
type binaries struct{ weir, kube, etcd string }

// token is that of an administrator on either server.
const token = "administrator"

// running is a server with what it needs.
type running struct {
	url, token string
	ca         *x509.CertPool
	process    process
	// modules is the directory that it reads modules from; "": it has none.
	modules string
	// ready is the time from its start to its readiness.
	ready    time.Duration
	commands []*exec.Cmd
}

// start runs a server, with an etcd of its own unless that is in its process.
func start(ctx context.Context, name string, b binaries, dir string) (_ *running, err error) {
	s := &running{token: token}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	etcd := ""
	if name != "weir-embedded" {
		if etcd, err = s.startEtcd(ctx, dir, b.etcd); err != nil {
			return nil, err
		}
	}
	port, err := tools.FreePort()
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,\"system:masters\"\n"), 0o600); err != nil {
		return nil, err
	}
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	pki, err := newPKI(dir)
	if err != nil {
		return nil, err
	}
	s.ca = pki.pool
	args := []string{"serve", "--data-dir", filepath.Join(dir, "weir"), "--unsafe-no-fsync", "--log-level", "warn"}
	binary := b.weir
	switch name {
	case "kube-apiserver":
		binary = b.kube
		args = []string{"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
			"--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-signing-key-file", pki.key, "--service-account-key-file", pki.key, "--authorization-mode", "RBAC",
			"--disable-admission-plugins", "ServiceAccount", "--client-ca-file", pki.cert}
	case "weir":
		args = []string{"serve", "--data-dir", filepath.Join(dir, "weir"), "--log-level", "warn", "--etcd-servers", etcd}
	case "weir-embedded":
	default:
		return nil, fmt.Errorf("no server %q: kube-apiserver, weir, weir-embedded", name)
	}
	if name != "kube-apiserver" {
		s.modules = filepath.Join(dir, "weir", "modules")
		if err := os.MkdirAll(s.modules, 0o700); err != nil {
			return nil, err
		}
	}
	args = append(args, "--secure-port", strconv.Itoa(port), "--token-auth-file", tokens, "--tls-cert-file", pki.cert, "--tls-private-key-file", pki.key)
	begin := time.Now()
	if err := s.exec(ctx, dir, name, binary, args...); err != nil {
		return nil, err
	}
	s.process = process(s.commands[len(s.commands)-1].Process.Pid)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca}, DisableKeepAlives: true}}
	end, err := waitFor(ctx, client, s.url+"/readyz", token)
	s.ready = end.Sub(begin)
	return s, err
}

// startEtcd starts an etcd that does not wait for the disk and returns its address when it answers.
func (s *running) startEtcd(ctx context.Context, dir, binary string) (string, error) {
	clients, err := freeAddress()
	if err != nil {
		return "", err
	}
	peers, err := freeAddress()
	if err != nil {
		return "", err
	}
	clients, peers = "http://"+clients, "http://"+peers
	if err := s.exec(ctx, dir, "etcd", binary, "--name", "p", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", clients, "--advertise-client-urls", clients, "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
		"--initial-cluster", "p="+peers, "--quota-backend-bytes", strconv.Itoa(8<<30)); err != nil {
		return "", err
	}
	if _, err := waitFor(ctx, http.DefaultClient, clients+"/health", ""); err != nil {
		return "", fmt.Errorf("etcd: %w", err)
	}
	return clients, nil
}

func (s *running) exec(ctx context.Context, dir, name, binary string, args ...string) error {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	command := exec.CommandContext(context.WithoutCancel(ctx), binary, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	s.commands = append(s.commands, command)
	return nil
}

// stop ends what was started, the last first.
func (s *running) stop() {
	for i := len(s.commands) - 1; i >= 0; i-- {
		command := s.commands[i]
		_ = command.Process.Signal(syscall.SIGTERM) // one that has ended needs no signal
		kill := time.AfterFunc(30*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait() // how it ends does not matter
		kill.Stop()
	}
	s.commands = nil
}

// waitFor asks until the answer is 200.
func waitFor(ctx context.Context, client *http.Client, url, token string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return time.Time{}, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return time.Now(), nil
			}
		}
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%s is not ready: %w", url, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freeAddress is one of loopback on which nobody listens.
func freeAddress() (string, error) {
	port, err := tools.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// process is one whose use of the machine is read from /proc; 0 is none.
type process int

// ticks a second in which Linux counts CPU time.
const ticks = 100

// cpu is the time the process has used.
func (p process) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
	if err != nil || p == 0 {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks
}

// rss is the memory of the process in bytes.
func (p process) rss() int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		n, _ := strconv.ParseInt(fields[0], 10, 64)
		return n << 10
	}
	return 0
}

// machine is the time that all processes have used.
func machine() time.Duration {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	total := 0
	for i, field := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i >= 9 { // the name, idle, waiting, guests
			continue
		}
		n, _ := strconv.Atoi(field)
		total += n
	}
	return time.Duration(total) * time.Second / ticks
}
