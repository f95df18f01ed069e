package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"weir.dev/weir/server/servertest/tools"
)

// weirBinary builds the binary, once for all tests of the package: TestMain removes its directory.
var weirBinary = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(binaries, "weir")
	return binary, tools.BuildWeir(context.Background(), binary)
})

// binaries is the directory of weirBinary.
var binaries string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is a weir serve of its own.
type process struct {
	command    *exec.Cmd
	kubeconfig string
	log        *processLog
	ended      chan struct{} // closed when it has ended, with err
	err        error
}

// processLog is what a process has written so far.
type processLog struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve starts the binary and waits until it says where it listens.
func serve(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	binary, err := weirBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{log: &processLog{}, ended: make(chan struct{})}
	p.command = exec.CommandContext(context.WithoutCancel(t.Context()), binary, append([]string{"serve", "--data-dir", dir, "--secure-port", "0"}, args...)...)
	p.command.Stderr = p.log
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // gone already when the test went well
		<-p.ended                    // nobody writes to its directory any more
	})
	said := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "export KUBECONFIG="); ok {
				said <- name
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout)
		p.err = p.command.Wait()
		close(p.ended)
	}()
	select {
	case p.kubeconfig = <-said:
	case <-p.ended:
		t.Fatalf("weir serve ended: %s", p.log)
	case <-time.After(patience):
		t.Fatalf("weir serve does not say where it listens: %s", p.log)
	}
	return p
}

// config waits until the server is ready.
func (p *process) config(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return config
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not ready: %s", p.log)
		}
	}
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		var exit *exec.ExitError
		if p.err != nil && !errors.As(p.err, &exit) {
			t.Fatal(p.err)
		}
		return p.command.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatalf("weir does not end: %s", p.log)
		return 0
	}
}

// TestKill kills the server with SIGKILL while clients write: what was acknowledged is there after a restart.
func TestKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and starts the binary")
	}
	dir := t.TempDir()
	p := serve(t, dir)
	client, err := kubernetes.NewForConfig(p.config(t))
	if err != nil {
		t.Fatal(err)
	}
	const writers, enough = 4, 200
	var mu sync.Mutex
	acknowledged := map[string]string{} // guarded by mu; name to resourceVersion
	plenty := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for writer := range writers {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("w%d-%d", writer, i)
				made, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				if err != nil {
					return // the server is gone
				}
				mu.Lock()
				if acknowledged[name] = made.ResourceVersion; len(acknowledged) == enough {
					close(plenty)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-plenty:
	case <-ctx.Done():
		t.Fatal("writes are too slow")
	}
	if err := p.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait(t)
	wg.Wait()

	p = serve(t, dir)
	if client, err = kubernetes.NewForConfig(p.config(t)); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]string{}
	for i := range list.Items {
		stored[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	for name, version := range acknowledged {
		if stored[name] != version {
			t.Errorf("%s was acknowledged at %s; after a kill it is at %q", name, version, stored[name])
		}
	}
	// One write per writer may have been on its way.
	if len(stored) > len(acknowledged)+writers {
		t.Errorf("%d objects, of which %d were acknowledged", len(stored), len(acknowledged))
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.log)
	}
}

// TestTerminate drains: a watch ends as a stream does, without an error, and the exit code is 0.
func TestTerminate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and starts the binary")
	}
	p := serve(t, t.TempDir())
	config := p.config(t)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	events := json.NewDecoder(resp.Body)
	var event metav1.WatchEvent
	if err := events.Decode(&event); err != nil || event.Type != "BOOKMARK" {
		t.Fatalf("first event %v, %v; want a bookmark", event, err)
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for {
		err := events.Decode(&event)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || event.Type == "ERROR" {
			t.Fatalf("the watch ends with %v, %v; want its end alone", event, err)
		}
	}
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.log)
	}
}

// TestEtcdDown is a server whose etcd does not answer: it says so soon and clearly, and stays up.
func TestEtcdDown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and starts the binary")
	}
	// A listener that nobody accepts from: connections hang, as to a host that is overloaded.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p := serve(t, t.TempDir(), "--etcd-servers", "http://"+listener.Addr().String())
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, method, path, body string
		codes                    []int
		says                     string
	}{
		{"ready", "GET", "/readyz?verbose", "", []int{500, 503}, "etcd"},
		{"list", "GET", configMapsPath, "", []int{429, 503, 504}, ""},
		{"get", "GET", configMapsPath + "/x", "", []int{503, 504}, ""},
		{"create", "POST", configMapsPath, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`, []int{503, 504}, ""},
		{"discovery", "GET", "/apis", "", []int{200}, "apps"},
	}
	t.Run("requests", func(t *testing.T) {
		for _, tc := range tests {
			t.Run(tc.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, tc.method, config.Host+tc.path, strings.NewReader(tc.body))
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(tc.codes, resp.StatusCode) || !strings.Contains(string(body), tc.says) {
					t.Errorf("%d after %s, want one of %v: %.500s", resp.StatusCode, time.Since(start).Round(time.Millisecond), tc.codes, body)
				}
				t.Logf("%d after %s: %.300s", resp.StatusCode, time.Since(start).Round(time.Millisecond), body)
			})
		}
	})
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code %d, want 0: %s", code, p.log)
	}
}
