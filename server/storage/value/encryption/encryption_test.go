package encryption_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
	. "weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

var (
	secrets = schema.GroupResource{Resource: "secrets"}
	plain   = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"password":"aHVudGVyMg=="}}`)
)

const key = value.Key("/registry/secrets/default/a")

// quick are intervals for tests that wait.
var quick = encryption.Intervals{
	Poll: 50 * time.Millisecond, Probe: 20 * time.Millisecond, ProbeFailing: 10 * time.Millisecond,
	Fresh: time.Millisecond, FreshFailure: time.Millisecond,
}

// fixture is an Encryption that follows its file.
type fixture struct {
	*encryption.Encryption
	t        *testing.T
	file     string
	registry *prometheus.Registry
	log      *safeBuffer
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func open(t *testing.T, content string, intervals encryption.Intervals) *fixture {
	t.Helper()
	f := &fixture{t: t, file: filepath.Join(t.TempDir(), "encryption.yaml")}
	Write(t, f.file, content)
	f.start(intervals)
	return f
}

func (f *fixture) start(intervals encryption.Intervals) {
	t := f.t
	t.Helper()
	f.registry, f.log = prometheus.NewRegistry(), &safeBuffer{}
	var err error
	f.Encryption, err = encryption.Open(t.Context(), encryption.Config{File: f.file, Registerer: f.registry, Intervals: intervals,
		Logger: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var owned sync.WaitGroup
	owned.Go(func() { f.Run(ctx) })
	t.Cleanup(func() {
		stop()
		owned.Wait()
		f.Close()
	})
}

func (f *fixture) write(gr schema.GroupResource, data []byte, key value.Key) []byte {
	f.t.Helper()
	stored, err := f.For(gr).TransformToStorage(f.t.Context(), data, key)
	if err != nil {
		f.t.Fatal(err)
	}
	return stored
}

// wantRead reads a row and compares it and its staleness.
func (f *fixture) wantRead(gr schema.GroupResource, stored []byte, key value.Key, stale bool) {
	f.t.Helper()
	out, isStale, err := f.For(gr).TransformFromStorage(f.t.Context(), stored, key)
	if err != nil || !bytes.Equal(out, plain) || isStale != stale {
		f.t.Errorf("%.40q: got %q, stale %t, %v; want the row, stale %t", stored, out, isStale, err, stale)
	}
}

// wantUnreadable wants an error with a text, and returns it.
func (f *fixture) wantUnreadable(gr schema.GroupResource, stored []byte, key value.Key, text string) error {
	f.t.Helper()
	out, _, err := f.For(gr).TransformFromStorage(f.t.Context(), stored, key)
	if err == nil || !strings.Contains(err.Error(), text) || out != nil {
		f.t.Errorf("%.40q: got %q, %v; want an error with %q", stored, out, err, text)
	}
	return err
}

// await waits until something holds.
func (f *fixture) await(what string, holds func() bool) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			f.t.Fatalf("%s did not happen; log:\n%s", what, f.log)
		}
	}
}

// awaitWriter waits until rows are written with a prefix.
func (f *fixture) awaitWriter(prefix string) {
	f.t.Helper()
	f.await("writing with "+prefix, func() bool { return bytes.HasPrefix(f.write(secrets, plain, key), []byte(prefix)) })
}

func TestProviders(t *testing.T) {
	plugin := NewPlugin(t)
	tests := []struct {
		name, provider, prefix string
		// sealed says that a changed row is known as such, bound that a moved one is.
		sealed, bound bool
		moved         string
	}{
		{"aesgcm", Keys("aesgcm", "a"), "k8s:enc:aesgcm:v1:a:", true, true, `aesgcm key "a"`},
		{"aescbc", Keys("aescbc", "a"), "k8s:enc:aescbc:v1:a:", false, false, ""},
		{"secretbox", Keys("secretbox", "a"), "k8s:enc:secretbox:v1:a:", true, false, ""},
		{"kms", plugin.Patient("p"), "k8s:enc:kms:v2:p:", true, true, `kms provider "p"`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, Config(Entry("secrets", tc.provider, Identity)), encryption.Intervals{})
			stored := f.write(secrets, plain, key)
			if !bytes.HasPrefix(stored, []byte(tc.prefix)) || bytes.Contains(stored, []byte("password")) || bytes.Contains(stored, plain[:12]) {
				t.Errorf("stored %q, want prefix %q and no plain text", stored, tc.prefix)
			}
			f.wantRead(secrets, stored, key, false)
			f.wantRead(secrets, plain, key, true) // identity is listed
			if again := f.write(secrets, plain, key); bytes.Equal(again, stored) {
				t.Error("the same bytes are stored twice: no nonce")
			}

			const elsewhere = value.Key("/registry/secrets/default/b")
			if tc.bound {
				f.wantUnreadable(secrets, stored, elsewhere, tc.moved)
			} else {
				f.wantRead(secrets, stored, elsewhere, false)
			}
			for i := range stored {
				flipped := bytes.Clone(stored)
				flipped[i] ^= 0x10
				out, _, err := f.For(secrets).TransformFromStorage(t.Context(), flipped, key)
				// Within "k8s:enc:" the row is no encrypted one any more, and no JSON. Of an envelope some bytes
				// do not matter, such as the plugin's annotations.
				harmless := tc.name == "kms" && bytes.Equal(out, plain)
				if bytes.HasPrefix(flipped, []byte(value.EncryptedPrefix)) && tc.sealed && (err == nil || out != nil) && !harmless {
					t.Errorf("byte %d flipped: got %q, %v", i, out, err)
				}
				cut, _, err := f.For(secrets).TransformFromStorage(t.Context(), stored[:i], key)
				if i >= len(tc.prefix) && tc.sealed && err == nil {
					t.Errorf("cut off at %d: got %q", i, cut)
				}
			}
		})
	}
}

// Of several providers the first writes and each reads; so do keys of one provider.
func TestOrder(t *testing.T) {
	f := open(t, Config(
		Entry("secrets", Keys("secretbox", "new", "old"), Keys("aesgcm", "older"), Identity),
		Entry("one", Keys("secretbox", "old")), Entry("two", Keys("aesgcm", "older")), Entry("three", Keys("secretbox", "lost")),
		Entry("four", Keys("aesgcm", "older"), Keys("aesgcm", "older2")),
	), encryption.Intervals{})
	row := func(resource string) []byte { return f.write(schema.GroupResource{Resource: resource}, plain, key) }
	f.wantRead(secrets, row("secrets"), key, false)
	f.wantRead(secrets, row("one"), key, true)
	f.wantRead(secrets, row("two"), key, true)
	f.wantRead(secrets, plain, key, true)
	f.wantUnreadable(secrets, row("three"), key, `row is encrypted as "k8s:enc:secretbox:v1:lost:", for which no provider is configured`)
	f.wantUnreadable(schema.GroupResource{Resource: "one"}, plain, key, "row is not encrypted, and identity is not among the providers")
	err := f.wantUnreadable(schema.GroupResource{Resource: "pods"}, row("one"), key, "no provider is configured")
	if !errors.Is(err, value.ErrEncrypted) {
		t.Errorf("got %v, want ErrEncrypted", err)
	}
	if got := f.write(schema.GroupResource{Resource: "pods"}, plain, key); !bytes.Equal(got, plain) {
		t.Errorf("a resource that no entry names is stored as %q", got)
	}
}

func TestByKey(t *testing.T) {
	f := open(t, Config(Entry("secrets", Keys("secretbox", "a")), Entry("configmaps", Keys("aesgcm", "b"))), encryption.Intervals{})
	all := f.ByKey(func(key string) schema.GroupResource {
		return schema.GroupResource{Resource: strings.Split(key, "/")[2]}
	})
	for key, prefix := range map[value.Key]string{
		"/registry/secrets/x/a": "k8s:enc:secretbox:v1:a:", "/registry/configmaps/x/a": "k8s:enc:aesgcm:v1:b:", "/registry/pods/x/a": "{",
	} {
		stored, err := all.TransformToStorage(t.Context(), plain, key)
		if err != nil || !bytes.HasPrefix(stored, []byte(prefix)) {
			t.Errorf("%s: got %.30q, %v, want %q", key, stored, err, prefix)
		}
		out, stale, err := all.TransformFromStorage(t.Context(), stored, key)
		if err != nil || stale || !bytes.Equal(out, plain) {
			t.Errorf("%s: got %q, %t, %v", key, out, stale, err)
		}
	}
}

func TestNothingConfigured(t *testing.T) {
	var none *encryption.Encryption
	none.Run(t.Context())
	none.Close()
	none.Forget(secrets)
	if err := errors.Join(none.CheckKMS(t.Context()), none.CheckConfig(t.Context())); err != nil {
		t.Error(err)
	}
	if none.For(secrets) != (value.Identity{}) || none.ByKey(nil) != (value.Identity{}) {
		t.Error("something is encrypted")
	}
	if _, err := encryption.Open(t.Context(), encryption.Config{}); err == nil {
		t.Error("no file is no error")
	}
	if _, err := encryption.Open(t.Context(), encryption.Config{File: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// counter returns the sum of a metric's values that have a label.
func counter(t *testing.T, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var have strings.Builder
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&have, "%s=%s;", l.GetName(), l.GetValue())
			}
			matches := f.GetName() == name
			for _, l := range labels {
				matches = matches && strings.Contains(have.String(), l+";")
			}
			if matches {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func TestMetrics(t *testing.T) {
	f := open(t, Config(Entry("secrets", Keys("secretbox", "a"), Identity)), encryption.Intervals{})
	stored := f.write(secrets, plain, key)
	f.wantRead(secrets, stored, key, false)
	f.wantRead(secrets, plain, key, true)
	stored[len(stored)-1]++
	f.wantUnreadable(secrets, stored, key, "")
	const name = "apiserver_storage_transformation_operations_total"
	for _, labels := range [][]string{
		{"resource=secrets", "status=OK", "transformation_type=to_storage", "transformer_prefix=k8s:enc:secretbox:v1:"},
		{"resource=secrets", "status=OK", "transformation_type=from_storage", "transformer_prefix=k8s:enc:secretbox:v1:"},
		{"resource=secrets", "status=OK", "transformation_type=from_storage", "transformer_prefix=identity"},
		{"resource=secrets", "status=unknown-non-grpc", "transformation_type=from_storage", "transformer_prefix=k8s:enc:secretbox:v1:"},
	} {
		if got := counter(t, f.registry, name, labels...); got != 1 {
			t.Errorf("%v: got %v, want 1", labels, got)
		}
	}
	f.Forget(schema.GroupResource{Resource: "others"})
	if got := counter(t, f.registry, name, "resource=secrets"); got == 0 {
		t.Error("another resource is forgotten")
	}
	f.Forget(secrets)
	if got := counter(t, f.registry, name, "resource=secrets"); got != 0 {
		t.Errorf("a resource that is forgotten still has series of %v", got)
	}
}
