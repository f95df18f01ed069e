//go:build unix

package torture_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
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
	file string
	of   value.Transformer
	turn int

	mu   sync.Mutex
	rows []row // that were read since forget; guarded by mu
}

// row is one that etcd has told of.
type row struct {
	prefix, value string
	read          int64 // when, which may be long after it was written
	called        int64 // when its write was asked for
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

// readConfig waits until all servers say that a configuration is in force.
func (r *run) readConfig(ctx context.Context, content string) error {
	line := fmt.Sprintf("apiserver_encryption_config_controller_last_config_info{hash=\"sha256:%x\"} 1\n", sha256.Sum256([]byte(content)))
	for _, s := range r.servers {
		c := newClient([]endpoint{s.endpoint(true)}, 0)
		err := eventually(ctx, 20*time.Millisecond, func(ctx context.Context) error {
			metrics, err := c.text(ctx, "/metrics")
			if err == nil && !strings.Contains(metrics, line) {
				err = fmt.Errorf("the metrics of %s have no %s", s.name, line)
			}
			return err
		})
		c.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// decode decrypts a row. One that is not encrypted is an error.
func (c *ciphers) decode(ctx context.Context, key string, data []byte, now int64) ([]byte, error) {
	for i := range providers {
		prefix := cipherPrefix(i)
		if !bytes.HasPrefix(data, []byte(prefix)) {
			continue
		}
		out, _, err := c.of.TransformFromStorage(ctx, data, value.Key(key))
		if err != nil {
			return nil, err
		}
		if w, err := parse(out); err == nil { // else the recorder complains
			c.mu.Lock()
			c.rows = append(c.rows, row{prefix: prefix, value: w.object().value, read: now})
			c.mu.Unlock()
		}
		return out, nil
	}
	return nil, fmt.Errorf("a row is not encrypted, it begins with %.16q", data)
}

// forget forgets the rows read so far.
func (c *ciphers) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = nil
}

// calledAfter returns the rows whose writes were asked for after a time. When they were read says nothing of when they were
// written: the recorder may be behind.
func (c *ciphers) calledAfter(after int64, ops []*operation) (rows []row) {
	called := map[string]int64{}
	for _, op := range ops {
		if op.call > after && op.value != "" {
			called[op.value] = op.call
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.rows {
		if at, ok := called[w.value]; ok {
			w.called = at
			rows = append(rows, w)
		}
	}
	return rows
}

// rotateKeys has another key write, over and over, and kills the server now and then. It takes longer where no rotation
// is shown in time.
func rotateKeys(short context.Context, r *run) {
	c := r.ciphers
	for ctx := r.context; ; {
		r.wait(ctx, 100*time.Millisecond, 400*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
		c.forget()
		c.turn++
		want, content := cipherPrefix(c.turn), cipherFile(c.turn, r.resource.plural)
		encryptiontest.Write(r.t, c.file, content)
		r.fault("rows are written with %s", want)
		if r.random.IntN(3) == 0 {
			s := r.servers[r.random.IntN(len(r.servers))]
			r.fault("kill %s", s.name)
			s.kill()
			r.restart(s)
			_ = s.ready(ctx)
		}
		until, cancel := context.WithTimeout(ctx, patience)
		if err := r.readConfig(until, content); err != nil {
			cancel()
			if ctx.Err() == nil {
				r.t.Errorf("a configuration does not come in force: %v", err)
			}
			return
		}
		since := r.now()
		_ = eventually(until, 20*time.Millisecond, func(context.Context) error {
			if len(c.calledAfter(since, r.operations.all())) == 0 {
				return errors.New("nothing is written")
			}
			return nil
		})
		cancel()
		r.wait(ctx, 100*time.Millisecond, 500*time.Millisecond)
		rows := c.calledAfter(since, r.operations.all())
		for _, w := range rows {
			if w.prefix != want {
				r.t.Errorf("a row begins with %s; its write was asked for %s after %s was in force, and it was read after %s",
					w.prefix, time.Duration(w.called-since), want, time.Duration(w.read-since))
			}
		}
		switch {
		case len(rows) > 0:
			r.note(rotations)
			ctx = short
		case ctx.Err() == nil:
			return // nothing is written any more
		}
	}
}

func TestCiphers(t *testing.T) {
	c := newCiphers(t, configMaps)
	const key = "/registry/configmaps/torture/a"
	ctx := t.Context()
	stored, err := c.of.TransformToStorage(ctx, []byte(`{"kind":"ConfigMap","data":{"v":"x"}}`), value.Key(key))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.decode(ctx, key, stored, 5); err != nil || string(got) != `{"kind":"ConfigMap","data":{"v":"x"}}` {
		t.Errorf("got %q, %v", got, err)
	}
	// Of its write only the time counts, not when it was read.
	write := &operation{object: object{value: "x"}, call: 3}
	if rows := c.calledAfter(2, []*operation{write}); len(rows) != 1 || rows[0] != (row{prefix: cipherPrefix(0), value: "x", read: 5, called: 3}) {
		t.Errorf("got %v", rows)
	}
	for _, ops := range [][]*operation{nil, {{object: object{value: "y"}, call: 4}}, {{object: object{value: "x"}, call: 2}}} {
		if rows := c.calledAfter(2, ops); rows != nil {
			t.Errorf("%v: got %v", ops, rows)
		}
	}
	c.forget()
	if rows := c.calledAfter(2, []*operation{write}); rows != nil {
		t.Errorf("got %v that was forgotten", rows)
	}
	if _, err := c.decode(ctx, key, []byte(`{"kind":"ConfigMap"}`), 6); err == nil || !strings.Contains(err.Error(), "not encrypted") {
		t.Errorf("a row that is not encrypted: %v", err)
	}
	stored[len(stored)-1] ^= 1
	if _, err := c.decode(ctx, key, stored, 7); err == nil {
		t.Error("a row that was changed is taken")
	}
}
