package encryption_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/weir/server/storage/value/encryption"
	. "weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

const reloads = "apiserver_encryption_config_controller_automatic_reloads_total"

// notified are intervals with which only a notice of the system is soon enough.
var notified = encryption.Intervals{Poll: time.Hour}

// A change takes effect at once, however the file is replaced.
func TestReload(t *testing.T) {
	before, after := Config(Entry("secrets", Keys("secretbox", "a"))), Config(Entry("secrets", Keys("secretbox", "b", "a")))
	tests := []struct {
		name string
		// lay makes the file and returns its path and what changes it.
		lay func(t *testing.T, dir string) (file string, change func())
	}{
		{"rename", func(t *testing.T, dir string) (string, func()) {
			file := filepath.Join(dir, "f")
			Write(t, file, before)
			return file, func() { Write(t, file, after) }
		}},
		{"in place", func(t *testing.T, dir string) (string, func()) {
			file := filepath.Join(dir, "f")
			Write(t, file, before)
			return file, func() {
				if err := os.WriteFile(file, []byte(after), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"volume of a ConfigMap", func(t *testing.T, dir string) (string, func()) {
			put := func(version, content string) {
				if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
					t.Fatal(err)
				}
				Write(t, filepath.Join(dir, version, "f"), content)
				if err := os.Symlink(version, filepath.Join(dir, "..tmp")); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
					t.Fatal(err)
				}
			}
			put("..1", before)
			if err := os.Symlink("..data/f", filepath.Join(dir, "f")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "f"), func() {
				put("..2", after)
				if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"link to elsewhere", func(t *testing.T, dir string) (string, func()) {
			target := filepath.Join(t.TempDir(), "f")
			Write(t, target, before)
			if err := os.Symlink(target, filepath.Join(dir, "f")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "f"), func() { Write(t, target, after) }
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := &fixture{t: t}
			var change func()
			f.file, change = tc.lay(t, t.TempDir())
			f.start(notified)
			stored := f.write(secrets, plain, key)
			f.wantRead(secrets, stored, key, false)
			change()
			f.awaitWriter("k8s:enc:secretbox:v1:b:")
			f.wantRead(secrets, stored, key, true)
			f.await("count", func() bool { return counter(t, f.registry, reloads, "status=success") > 0 }) // after it is in force
			if got := counter(t, f.registry, reloads, "status=success"); got != 1 {
				t.Errorf("got %v reloads, want 1", got)
			}
		})
	}
}

// Where nothing tells of a change, it is found by reading.
func TestPoll(t *testing.T) {
	f := open(t, Config(Entry("secrets", Keys("secretbox", "a"))), encryption.Intervals{Poll: 10 * time.Millisecond})
	Write(t, f.file, Config(Entry("secrets", Keys("aesgcm", "a"))))
	f.awaitWriter("k8s:enc:aesgcm:v1:a:")
}

// A bad file changes nothing but what the checks, the log and the metrics say.
func TestBadReload(t *testing.T) {
	good := Config(Entry("secrets", Keys("secretbox", "a")))
	dead := NewPlugin(t)
	dead.Stop()
	tests := []struct{ name, content, want string }{
		{"no YAML", "a: [", "yaml"},
		{"empty", "", "file is empty"},
		{"a key of a wrong length", strings.ReplaceAll(good, Secret("a"), "c2hvcnRzZWNyZXQ="), "not of the expected length"},
		{"a field that is not known", good + "more: 1\n", "unknown field"},
		{"gone", "-", "no such file"},
	}
	f := open(t, good, quick)
	for _, tc := range tests {
		failures := counter(t, f.registry, reloads, "status=failure")
		if tc.content == "-" {
			if err := os.Remove(f.file); err != nil {
				t.Fatal(err)
			}
		} else {
			Write(t, f.file, tc.content)
		}
		f.await(tc.name, func() bool {
			err := f.CheckConfig(t.Context())
			return err != nil && strings.Contains(err.Error(), tc.want)
		})
		stored := f.write(secrets, plain, key)
		f.wantRead(secrets, stored, key, false)
		if !strings.HasPrefix(string(stored), "k8s:enc:secretbox:v1:a:") {
			t.Errorf("%s: stored %.30q", tc.name, stored)
		}
		if got := counter(t, f.registry, reloads, "status=failure"); got <= failures {
			t.Errorf("%s: the metric does not count", tc.name)
		}
		if !strings.Contains(f.log.String(), tc.want) || strings.Contains(f.log.String(), "c2hvcnRzZWNyZXQ") || strings.Contains(f.log.String(), Secret("a")) {
			t.Errorf("%s: the log says\n%s", tc.name, f.log)
		}
		Write(t, f.file, good)
		f.await("recovery from "+tc.name, func() bool { return f.CheckConfig(t.Context()) == nil })
	}
	if got := counter(t, f.registry, reloads, "status=success"); got != 0 {
		t.Errorf("%v reloads, though nothing else was ever in force", got)
	}
}

// A new configuration waits for its plugins.
func TestReloadWaitsForPlugin(t *testing.T) {
	f := open(t, Config(Entry("secrets", Identity)), quick)
	plugin := NewPlugin(t)
	plugin.SetHealthz("sealed")
	Write(t, f.file, Config(Entry("secrets", plugin.Patient("p"), Identity)))
	f.await("the attempt", func() bool { return strings.Contains(f.log.String(), "plugin says") })
	if stored := f.write(secrets, plain, key); string(stored) != string(plain) {
		t.Errorf("stored %.30q with a plugin that is unwell", stored)
	}
	plugin.SetHealthz("ok")
	f.awaitWriter("k8s:enc:kms:v2:p:")
}

// Calls go on while the configuration changes: what was written with a key that is still listed is read, and no call
// meets a closed connection.
func TestHammer(t *testing.T) {
	plugin := NewPlugin(t)
	contents := []string{
		Config(Entry("secrets", Keys("secretbox", "a", "b"), Keys("aesgcm", "c"), plugin.Patient("p"), Identity)),
		Config(Entry("secrets", plugin.Patient("p"), Keys("secretbox", "b", "a"), Keys("aesgcm", "c"), Identity)),
		Config(Entry("*.*", Keys("aesgcm", "c"), Keys("secretbox", "b", "a"), plugin.Patient("p"), Identity)),
		Config(Entry("*.", Identity, Keys("aesgcm", "c"), Keys("secretbox", "b", "a"), plugin.Patient("p"))),
	}
	f := open(t, contents[0], quick)
	done := make(chan struct{})
	var workers sync.WaitGroup
	transformer := f.For(secrets)
	for range 4 {
		workers.Go(func() {
			for {
				stored, err := transformer.TransformToStorage(t.Context(), plain, key)
				if err != nil {
					t.Error(err)
					return
				}
				out, _, err := transformer.TransformFromStorage(t.Context(), stored, key)
				if err != nil || string(out) != string(plain) {
					t.Errorf("%.40q: got %q, %v", stored, out, err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	stop := sync.OnceFunc(func() { close(done) })
	t.Cleanup(workers.Wait)
	defer stop()
	for i := range 20 {
		before := counter(t, f.registry, reloads, "status=success")
		Write(t, f.file, contents[(i+1)%len(contents)])
		f.await("reload", func() bool { return counter(t, f.registry, reloads, "status=success") > before })
	}
	stop()
	workers.Wait()
	if err := f.CheckConfig(t.Context()); err != nil {
		t.Error(err)
	}
}

// After Close nothing waits for a plugin.
func TestClosed(t *testing.T) {
	plugin := NewPlugin(t)
	file := filepath.Join(t.TempDir(), "f")
	Write(t, file, Config(Entry("secrets", plugin.Patient("p"))))
	e, err := encryption.Open(t.Context(), encryption.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	e.Close()
	_, err = e.For(secrets).TransformToStorage(t.Context(), plain, key)
	wantUnavailable(t, err, "encryption is closed")
}
