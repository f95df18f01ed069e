package etcd3_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir.dev/weir/server/storage"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/storagetest"
)

// hungProxy is an address of an etcd that can hang: then it takes connections, as the kernel does for a process that is
// stopped, and nothing goes through.
type hungProxy struct {
	address string

	mu   sync.Mutex
	pass chan struct{} // closed while all goes through; guarded by mu
	done chan struct{}
}

func newHungProxy(t *testing.T, etcd string) *hungProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &hungProxy{address: l.Addr().String(), pass: make(chan struct{}), done: make(chan struct{})}
	close(p.pass)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { p.serve(front, etcd, &work) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(p.done)
		work.Wait()
	})
	return p
}

func (p *hungProxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass = make(chan struct{})
}

func (p *hungProxy) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.pass)
}

// wait returns false when the test is over.
func (p *hungProxy) wait() bool {
	p.mu.Lock()
	pass := p.pass
	p.mu.Unlock()
	select {
	case <-pass:
		return true
	case <-p.done:
		return false
	}
}

func (p *hungProxy) serve(front net.Conn, etcd string, work *sync.WaitGroup) {
	defer front.Close()
	if !p.wait() {
		return
	}
	back, err := net.Dial("tcp", etcd)
	if err != nil {
		return
	}
	defer back.Close()
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	for _, pair := range [][2]net.Conn{{front, back}, {back, front}} {
		work.Go(func() {
			defer end()
			for buf := make([]byte, 32<<10); ; {
				n, err := pair[0].Read(buf)
				if !p.wait() || err != nil {
					return
				}
				if _, err := pair[1].Write(buf[:n]); err != nil {
					return
				}
			}
		})
	}
	select {
	case <-over:
	case <-p.done:
	}
}

// logged is a log that can be read.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns those with a text.
func (l *logged) lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func dialMembers(t *testing.T, cfg etcd3.DialConfig) *etcd3.Members {
	t.Helper()
	members, err := etcd3.DialMembers(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := members.Close(); err != nil && err != context.Canceled {
			t.Error(err)
		}
	})
	return members
}

// Of two members one hangs: reads and watches go on at the other, one line names it, and it is asked again when it answers.
func TestMembersOneHangs(t *testing.T) {
	t.Parallel()
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	first, second := newHungProxy(t, e.Addr().String()), newHungProxy(t, e.Addr().String())
	log := &logged{}
	members := dialMembers(t, etcd3.DialConfig{Endpoints: []string{"http://" + first.address, "http://" + second.address}, Logger: log.logger()})
	health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: members.Client(), Members: members, Logger: log.logger(), Interval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(health.Close)
	store := newStore(t, etcd3.Config{Client: members.Client(), Health: health, Prefix: storagetest.Root})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := storagetest.NewObject("a")
	storagetest.Create(ctx, t, store, o)
	opts := everything()
	opts.ResourceVersion = "1"
	// Each has a stream of its own, so that some are at either member.
	var watchers []storage.Watcher
	for i := range 4 {
		watcher, err := store.Watch(context.WithValue(ctx, watchNumber{}, i), storagetest.Prefix, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Stop()
		watchers = append(watchers, watcher)
	}
	for range 2 { // both are connected
		eventually(t, func() bool {
			_, err := store.Get(ctx, o.Key(), storage.GetOptions{})
			return err == nil
		})
	}

	eventually(t, func() bool { return members.Failed() == nil }) // a machine that is late may have had one out
	said := len(log.lines("does not answer: others"))
	first.hang()
	began := time.Now()
	var reads sync.WaitGroup
	for range 8 {
		reads.Go(func() {
			for {
				if _, err := store.Get(ctx, o.Key(), storage.GetOptions{}); err != nil {
					t.Errorf("a read after %s: %v", time.Since(began), err)
					return
				}
				if members.Silent() != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	reads.Wait()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("reads have hung for %s", took)
	}
	silent := members.Silent()
	if silent == nil || !strings.Contains(silent.Error(), first.address) || strings.Contains(silent.Error(), second.address) {
		t.Errorf("silent: %v, want %s", silent, first.address)
	}
	if got := members.Client().Endpoints(); len(got) != 1 || !strings.HasSuffix(got[0], second.address) {
		t.Errorf("requests go to %v", got)
	}
	if lines := log.lines("does not answer: others")[said:]; len(lines) != 1 || !strings.Contains(lines[0], first.address) {
		t.Errorf("the log says %q, want one line with %s", lines, first.address)
	}
	b := storagetest.NewObject("b")
	storagetest.Create(ctx, t, store, b)
	for _, watcher := range watchers {
		for seen := false; !seen; {
			events, err := watcher.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			seen = slices.ContainsFunc(events, func(e storage.Event) bool { return e.Row.Key == b.Key() })
		}
	}
	if health.Down() != nil {
		t.Errorf("an etcd of which one member answers is down: %v", health.Down())
	}

	// So it is where nobody asks but the Health, whose question may be put to the one that hangs.
	first.goOn()
	eventually(t, func() bool { return members.Failed() == nil })
	before := len(log.lines("etcd is down"))
	for range 2 {
		first.hang()
		eventually(t, func() bool { return members.Silent() != nil })
		first.goOn()
		eventually(t, func() bool { return members.Failed() == nil })
	}
	if lines := log.lines("etcd is down"); len(lines) != before {
		t.Errorf("the log says %q", lines)
	}
	first.hang()

	// The last one is asked even so.
	second.hang()
	eventually(t, func() bool { return len(members.Client().Endpoints()) == 2 && members.Failed() != nil })
	eventually(t, func() bool { return health.Down() != nil })
	second.goOn()
	first.goOn()
	eventually(t, func() bool { return members.Failed() == nil && health.Down() == nil })
	if lines := log.lines("member answers again"); len(lines) == 0 || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, first.address) }) {
		t.Errorf("the log says %q, want a line with %s", lines, first.address)
	}
	if got := members.Client().Endpoints(); len(got) != 2 {
		t.Errorf("requests go to %v", got)
	}
}

type watchNumber struct{}

// Why there is no etcd is told, with the address, to operators only, in one line.
func TestMembersCause(t *testing.T) {
	t.Parallel()
	e := start(t, etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	a, other := newAuthority(t), newAuthority(t)
	proxy := newTLSProxy(t, a, "127.0.0.1", e.Addr().String())
	tests := []struct {
		name string
		cfg  etcd3.DialConfig
		want string
	}{
		{"refused", etcd3.DialConfig{Endpoints: []string{"http://127.0.0.1:1"}}, "refused"},
		{"no socket", etcd3.DialConfig{Endpoints: []string{"unix://" + filepath.Join(t.TempDir(), "none")}}, "no such file"},
		{"no host", etcd3.DialConfig{Endpoints: []string{"http://etcd.invalid:2379"}}, "etcd.invalid"},
		{"plain", etcd3.DialConfig{Endpoints: []string{"https://" + e.Addr().String()}}, "tls:"},
		{"another authority", etcd3.DialConfig{Endpoints: []string{proxy.url}, CAFile: other.file("ca.crt")}, "x509"},
		{"no certificate", etcd3.DialConfig{Endpoints: []string{proxy.url}, CAFile: a.file("ca.crt")}, "certificate"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			log := &logged{}
			tc.cfg.Logger = log.logger()
			members := dialMembers(t, tc.cfg)
			eventually(t, func() bool { return members.Failed() != nil && strings.Contains(members.Failed().Error(), tc.want) })
			health, err := etcd3.StartHealth(etcd3.HealthConfig{Client: members.Client(), Members: members, Logger: log.logger(),
				Interval: time.Millisecond, Timeout: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(health.Close)
			eventually(t, func() bool { return health.Down() != nil })
			eventually(t, func() bool { return strings.Contains(health.Why().Error(), tc.want) })
			if text := health.Down().Error(); strings.Contains(text, tc.want) {
				t.Errorf("what clients are told names what operators are: %s", text)
			}
			eventually(t, func() bool { return len(log.lines("etcd is down")) > 0 })
			if lines := log.lines("etcd is down"); len(lines) != 1 || !strings.Contains(lines[0], tc.want) {
				t.Errorf("the log says %q, want one line with %q", lines, tc.want)
			}
			if !etcd3.IsDown(fmt.Errorf("list: %w", health.Down())) || etcd3.IsDown(io.EOF) || etcd3.IsDown(nil) {
				t.Error("what fails because etcd is down is not known")
			}
		})
	}
}

func TestValidEndpoint(t *testing.T) {
	for _, endpoint := range []string{"127.0.0.1:2379", "etcd:2379", "http://etcd:2379", "https://[::1]:2379", "HTTPS://etcd:2379", "unix:///run/etcd.sock", "unix:etcd.sock", "unixs://etcd.sock"} {
		if err := etcd3.ValidEndpoint(endpoint); err != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	for _, endpoint := range []string{"", "ftp://x", "http://", "https://:2379", "unix://", "http://a b", "http://u:secret@etcd:2379",
		"etcd://u:secret@etcd:2379", "u:secret@://etcd", "UNIX:///run/etcd.sock"} {
		if err := etcd3.ValidEndpoint(endpoint); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
