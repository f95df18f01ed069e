package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	testclock "k8s.io/utils/clock/testing"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

// big is the body of a ConfigMap of 900 KB.
func big(name, letter string) string {
	return strings.TrimSuffix(configMapBody(name, ""), "}") + fmt.Sprintf(`,"data":{"k":%q}}`, strings.Repeat(letter, 900<<10))
}

// An embedded etcd that is full of history takes writes again by itself.
func TestFullOfHistory(t *testing.T) {
	tt := newTester(t, servertest.Options{Config: server.Config{EmbeddedEtcdQuotaBytes: server.MinEmbeddedEtcdQuotaBytes}})
	tt.wantAnswer(http.MethodPost, configMapsPath, big("a", "x"), http.StatusCreated, nil)
	letters := "abcdefgh"
	refused := 0
	for i := range 1000 {
		code, out := tt.request(http.MethodPut, configMapsPath+"/a", big("a", letters[i%len(letters):][:1]))
		if code == http.StatusOK {
			continue
		}
		if code != http.StatusTooManyRequests || member(out, "details.retryAfterSeconds") == "<absent>" || !strings.Contains(member(out, "message"), "embedded etcd is full") {
			t.Fatalf("a write to a full etcd: %d %v", code, out)
		}
		refused++
		break
	}
	if refused == 0 {
		t.Fatal("the etcd does not become full")
	}
	soon(t, "writes are taken again", func() bool {
		code, _ := tt.request(http.MethodPut, configMapsPath+"/a", big("a", "z"))
		return code == http.StatusOK
	})
	soon(t, "/readyz has no warning", func() bool { // which goes when writes are taken
		code, text, _ := body(t, tt.env, "/readyz?verbose")
		return code == http.StatusOK && strings.Contains(text, "[+]etcd-space ok\n")
	})
}

// One that is full of objects is told of and keeps a server from nothing but writes, a start neither; it takes writes again
// when objects have been deleted.
func TestFullOfObjects(t *testing.T) {
	dir := t.TempDir()
	const objects = 24
	t.Run("filled", func(t *testing.T) {
		tt := newTester(t, servertest.Options{Config: server.Config{DataDir: dir}})
		for i := range objects {
			tt.wantAnswer(http.MethodPost, configMapsPath, big(fmt.Sprint("o", i), "x"), http.StatusCreated, nil)
		}
	})
	// The quota is a smaller one from here on.
	failed := &counting{Handler: slog.DiscardHandler, message: "request failed"}
	tt := newTester(t, servertest.Options{Config: server.Config{DataDir: dir,
		EmbeddedEtcdQuotaBytes: server.MinEmbeddedEtcdQuotaBytes, Logger: slog.New(failed)}})
	for _, when := range []string{"while it runs", "after a start"} {
		soon(t, "the error says what to do", func() bool {
			code, out := tt.request(http.MethodPost, configMapsPath, configMapBody("more", ""))
			if code == http.StatusCreated {
				t.Fatalf("%s: a full etcd takes a write", when)
			}
			return code == http.StatusInternalServerError && strings.Contains(member(out, "message"), "delete objects, or start with a larger --embedded-etcd-quota-backend-bytes")
		})
		for path, want := range map[string]string{
			"/readyz?verbose": "[+]etcd-space ok, with a warning: reason withheld\n", "/readyz/etcd-space": "warning: embedded etcd is full: ", "/livez": "ok",
		} {
			if code, text, _ := body(t, tt.env, path); code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %s: %d %s", when, path, code, text)
			}
		}
		tt.wantAnswer(http.MethodGet, configMapsPath+"/o1", "", http.StatusOK, nil)
		if when == "while it runs" {
			if err := tt.env.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range objects / 2 {
		tt.wantAnswer(http.MethodDelete, fmt.Sprint(configMapsPath, "/o", i), "", http.StatusOK, nil)
	}
	soon(t, "writes are taken again", func() bool {
		code, _ := tt.request(http.MethodPost, configMapsPath, configMapBody("more", ""))
		return code == http.StatusCreated
	})
	if n := failed.n.Load(); n > 0 {
		t.Errorf("%d lines of the log about requests that were refused", n)
	}
}

// counting is a log that counts lines of one message.
type counting struct {
	slog.Handler
	message string
	n       atomic.Int64
}

func (c *counting) Handle(_ context.Context, r slog.Record) error {
	if r.Message == c.message {
		c.n.Add(1)
	}
	return nil
}

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }

func (c *counting) WithAttrs([]slog.Attr) slog.Handler { return c }

// holding is a log that holds who writes a line of a defragmentation.
type holding struct {
	slog.Handler
	held func()
	goOn chan struct{}
}

func (h holding) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "embedded etcd is being defragmented") {
		h.held()
		<-h.goOn
	}
	return nil
}

func (h holding) Enabled(context.Context, slog.Level) bool { return true }

func (h holding) WithAttrs([]slog.Attr) slog.Handler { return h }

// A server that starts with a full etcd serves while that is defragmented: it is live, not ready, and then is.
func TestFullAtStart(t *testing.T) {
	dir := t.TempDir()
	// The clock stands still, so that this one stays full.
	full, err := etcd3.StartEmbedded(t.Context(), etcd3.EmbeddedConfig{DataDir: filepath.Join(dir, "etcd"), UnsafeNoFsync: true,
		QuotaBytes: server.MinEmbeddedEtcdQuotaBytes, Clock: testclock.NewFakeClock(time.Now())})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = full.Client().Put(t.Context(), "a", strings.Repeat("x", 1<<20))
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Error(err)
	}
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}

	held := make(chan struct{})
	log := holding{slog.DiscardHandler, sync.OnceFunc(func() { close(held) }), make(chan struct{})}
	s, err := server.New(t.Context(), server.Config{DataDir: dir, UnsafeNoFsync: true, Logger: slog.New(log), EmbeddedEtcdQuotaBytes: server.MinEmbeddedEtcdQuotaBytes})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer run.Wait()
	defer cancel()
	goOn := sync.OnceFunc(func() { close(log.goOn) })
	defer goOn()

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // it is this process
	defer client.CloseIdleConnections()
	answers := func(path string, code int, text string) error {
		resp, err := client.Get(s.URL() + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != code || !strings.Contains(string(got), text) {
			return fmt.Errorf("%s: %d %s %v, want %d %q", path, resp.StatusCode, got, err, code, text)
		}
		return nil
	}
	want := func(path string, code int, text string) {
		t.Helper()
		if err := answers(path, code, text); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-held:
	case <-time.After(awaitTimeout):
		t.Fatal("it is not defragmented")
	}
	want("/livez?verbose", http.StatusOK, "[+]etcd ok, with a warning: reason withheld\n")
	want("/readyz", http.StatusInternalServerError, "[-]etcd-readiness failed: reason withheld\n")
	goOn()
	soon(t, "it is ready", func() bool { return s.Ready() == nil })
	soon(t, "it has no warning", func() bool { return answers("/readyz?verbose", http.StatusOK, "[+]etcd-space ok\n") == nil }) // which goes when writes are taken
}
