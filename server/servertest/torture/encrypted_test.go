//go:build unix

package torture_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
	"weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

// ciphers is the encryption of a run: which keys write, and which have written.
type ciphers struct {
	file    string
	of      value.Transformer
	written sync.Map // prefix, as a string, to the time of the latest row, as an int64
	turn    int
}

// providers are those that a run rotates through. All are always there, so that each row can be read.
var providers = []struct{ kind, key string }{{"secretbox", "a"}, {"aesgcm", "b"}, {"aescbc", "c"}, {"secretbox", "d"}}

// cipherFile is a configuration in which provider i writes.
func cipherFile(i int, resource string) string {
	var out []string
	for n := range providers {
		p := providers[(i+n)%len(providers)]
		out = append(out, encryptiontest.Keys(p.kind, p.key))
	}
	return encryptiontest.Config(encryptiontest.Entry(resource, out...))
}

// cipherPrefix is what the rows of provider i begin with.
func cipherPrefix(i int) string {
	p := providers[i%len(providers)]
	return "k8s:enc:" + p.kind + ":v1:" + p.key + ":"
}

// newCiphers writes the configuration that the servers begin with.
func newCiphers(t *testing.T, of *resource) *ciphers {
	dir := t.TempDir()
	c := &ciphers{file: filepath.Join(dir, "encryption.yaml")}
	encryptiontest.Write(t, c.file, cipherFile(0, of.plural))
	all := filepath.Join(dir, "all.yaml")
	encryptiontest.Write(t, all, cipherFile(0, of.plural))
	e, err := encryption.Open(t.Context(), encryption.Config{File: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c.of = e.For(schema.GroupResource{Resource: of.plural})
	return c
}

// decode decrypts a row. One that is not encrypted is an error.
func (c *ciphers) decode(ctx context.Context, key string, data []byte, now int64) ([]byte, error) {
	for i := range providers {
		if prefix := cipherPrefix(i); bytes.HasPrefix(data, []byte(prefix)) {
			c.written.Store(prefix, now)
			out, _, err := c.of.TransformFromStorage(ctx, data, value.Key(key))
			return out, err
		}
	}
	return nil, fmt.Errorf("a row is not encrypted, it begins with %.16q", data)
}

// latest is the prefix of the latest row, and when it was written.
func (c *ciphers) latest() (prefix string, at int64) {
	c.written.Range(func(key, value any) bool {
		if when := value.(int64); when >= at {
			prefix, at = key.(string), when
		}
		return true
	})
	return prefix, at
}

// reloadTime is how long after a change of the file rows may be written as before.
const reloadTime = 1500 * time.Millisecond

// rotateKeys has another key write, over and over, and kills the server now and then.
func rotateKeys(ctx context.Context, r *run) {
	c := r.ciphers
	for {
		r.wait(ctx, 100*time.Millisecond, 400*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		c.turn++
		encryptiontest.Write(r.t, c.file, cipherFile(c.turn, r.resource.plural))
		r.fault("rows are written with %s", cipherPrefix(c.turn))
		if r.random.IntN(3) == 0 {
			s := r.servers[r.random.IntN(len(r.servers))]
			r.fault("kill %s", s.name)
			s.kill()
			r.restart(s)
			_ = s.ready(ctx)
		}
		since := r.now()
		pause(ctx, reloadTime)
		r.wait(ctx, 100*time.Millisecond, 500*time.Millisecond)
		if prefix, at := c.latest(); at > since+int64(reloadTime) {
			if prefix != cipherPrefix(c.turn) {
				r.t.Errorf("a row begins with %s, %s after the file says %s", prefix, time.Duration(at-since), cipherPrefix(c.turn))
			} else {
				r.note(rotations)
			}
		}
	}
}

func TestCiphers(t *testing.T) {
	c := newCiphers(t, configMaps)
	const key = "/registry/configmaps/torture/a"
	ctx := t.Context()
	row, err := c.of.TransformToStorage(ctx, []byte(`{"kind":"ConfigMap"}`), value.Key(key))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.decode(ctx, key, row, 5); err != nil || string(got) != `{"kind":"ConfigMap"}` {
		t.Errorf("got %q, %v", got, err)
	}
	if prefix, at := c.latest(); prefix != cipherPrefix(0) || at != 5 {
		t.Errorf("the latest row is of %s at %d", prefix, at)
	}
	if _, err := c.decode(ctx, key, []byte(`{"kind":"ConfigMap"}`), 6); err == nil || !strings.Contains(err.Error(), "not encrypted") {
		t.Errorf("a row that is not encrypted: %v", err)
	}
	row[len(row)-1] ^= 1
	if _, err := c.decode(ctx, key, row, 7); err == nil {
		t.Error("a row that was changed is taken")
	}
}
