package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest/tools"
)

const (
	// readyTimeout bounds the wait for a server that starts.
	readyTimeout = 60 * time.Second
	// portTries is how many ports are tried.
	portTries = 5
)

// Options of an Environment. The zero value is an empty server on a temporary directory.
type Options struct {
	// Config of the server. What is zero is good for a test: a temporary DataDir, any free port, warnings only
	// in the log. The embedded etcd never waits for the disk.
	Config server.Config
	// NotReady returns from Start when the server listens, without waiting until it is ready.
	NotReady bool
}

// Environment is a server that runs in this process.
type Environment struct {
	config    server.Config
	notReady  bool
	temporary string // removed by Close; "" when the caller gave the directory

	mu      sync.Mutex
	server  *server.Server     // guarded by mu
	wrong   []error            // guarded by mu; what comparisons of caches with etcd have found
	stop    context.CancelFunc // guarded by mu
	stopped chan error         // guarded by mu

	client *http.Client
	rest   *rest.Config
}

// Start starts a server that ends with the test, and fails the test when it does not get ready.
// The server's log goes to that of the test.
func Start(t testing.TB, options Options) *Environment {
	t.Helper()
	if options.Config.DataDir == "" {
		options.Config.DataDir = t.TempDir()
	}
	if options.Config.Logger == nil {
		log := &testLog{out: t.Output()}
		t.Cleanup(log.close)
		options.Config.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	e, err := New(t.Context(), options)
	if err != nil {
		t.Fatalf("start a server: %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return e
}

// New starts a server and waits until it is ready. ctx bounds the start only. The caller must Close what it gets.
func New(ctx context.Context, options Options) (*Environment, error) {
	e := &Environment{config: options.Config, notReady: options.NotReady}
	if e.config.DataDir == "" {
		dir, err := os.MkdirTemp("", "weir-")
		if err != nil {
			return nil, fmt.Errorf("servertest: %w", err)
		}
		e.config.DataDir, e.temporary = dir, dir
	}
	if e.config.Logger == nil {
		e.config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if len(e.config.EtcdServers) == 0 {
		e.config.UnsafeNoFsync = true
	}
	e.watchCaches()
	if err := e.startFirst(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// startFirst starts a server where none has been. It takes another free port where somebody else has the first by then.
func (e *Environment) startFirst(ctx context.Context) error {
	if e.config.SecurePort != 0 {
		return e.start(ctx)
	}
	for tries := 1; ; tries++ {
		port, err := tools.FreePort() // nobody takes it while the server is stopped
		if err != nil {
			return fmt.Errorf("servertest: %w", err)
		}
		e.config.SecurePort = port
		if err = e.start(ctx); tries == portTries || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
}

// start opens a server, runs it and waits for it.
func (e *Environment) start(ctx context.Context) error {
	s, err := server.New(ctx, e.config)
	if err != nil {
		return fmt.Errorf("servertest: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(running) }()
	e.mu.Lock()
	e.server, e.stop, e.stopped = s, stop, stopped
	e.mu.Unlock()
	if err := e.openClient(s); err != nil {
		return err
	}
	if e.notReady {
		return nil
	}
	return e.waitReady(ctx, s, stopped)
}

// openClient makes the client at the first start. It is good for later ones: authority and port stay.
func (e *Environment) openClient(s *server.Server) error {
	if e.client != nil {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return fmt.Errorf("servertest: kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("servertest: client: %w", err)
	}
	e.rest, e.client = config, client
	return nil
}

func (e *Environment) waitReady(ctx context.Context, s *server.Server, stopped chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.Ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case failed := <-stopped:
			stopped <- failed // for Stop
			return fmt.Errorf("servertest: the server ended before it was ready: %w", errors.Join(failed, err))
		case <-ctx.Done():
			return fmt.Errorf("servertest: not ready: %w", err)
		}
	}
}

// Stop drains the server as SIGTERM does and returns what Run returned. Stopping what is stopped does nothing.
func (e *Environment) Stop() error {
	e.mu.Lock()
	stop, stopped, running := e.stop, e.stopped, e.server
	e.stop, e.stopped, e.server = nil, nil, nil
	e.mu.Unlock()
	if stop == nil {
		return nil
	}
	err := e.compareCaches(running)
	stop()
	err = errors.Join(err, <-stopped)
	if e.client != nil {
		e.client.CloseIdleConnections()
	}
	return err
}

// Restart stops the server and starts it on the same data directory and the same port.
func (e *Environment) Restart(ctx context.Context) error {
	if err := e.Stop(); err != nil {
		return err
	}
	return e.start(ctx)
}

// Close stops the server and removes the directory that New made.
func (e *Environment) Close() error {
	err := errors.Join(e.Stop(), e.Inconsistencies())
	if e.temporary != "" {
		err = errors.Join(err, os.RemoveAll(e.temporary))
	}
	return err
}

// Server is what runs, nil when it is stopped.
func (e *Environment) Server() *server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.server
}

// URL of the server, https://127.0.0.1:<port>; the same after a restart.
func (e *Environment) URL() string { return e.rest.Host }

// DataDir is the server's directory.
func (e *Environment) DataDir() string { return e.config.DataDir }

// Kubeconfig is the path of the administrator's kubeconfig.
func (e *Environment) Kubeconfig() string { return filepath.Join(e.config.DataDir, "admin.kubeconfig") }

// ModuleDir is the directory below which spec.source.file of a Module is. It is made when it is not there.
func (e *Environment) ModuleDir() (string, error) {
	dir := e.config.ModuleDir
	if dir == "" {
		dir = filepath.Join(e.config.DataDir, "modules")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("servertest: %w", err)
	}
	return dir, nil
}

// RESTConfig is for client-go, as administrator and without a rate limit. It is the caller's own.
func (e *Environment) RESTConfig() *rest.Config { return rest.CopyConfig(e.rest) }

// Client speaks HTTP to the server as administrator. It trusts the server's authority.
func (e *Environment) Client() *http.Client { return e.client }
