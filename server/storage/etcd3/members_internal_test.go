package etcd3

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// judged returns two members that nobody asks but the test.
func judged(t *testing.T, cfg DialConfig) *Members {
	t.Helper()
	cfg.Endpoints = []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}
	m, err := DialMembers(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.cancel()
	m.done.Wait()
	t.Cleanup(func() { _ = m.Close() })
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range m.members { // as if they had answered
		*each = member{endpoint: each.endpoint, probe: each.probe}
	}
	return m
}

// A member keeps its connections that is late once, whatever it did while nobody answered, as in an election.
func TestMembersElection(t *testing.T) {
	m := judged(t, DialConfig{})
	conn, other := net.Pipe()
	defer other.Close()
	m.held.open[&heldConn{conn, conn, m.held, "127.0.0.1:2"}] = struct{}{}
	late := context.DeadlineExceeded
	looks := []struct {
		errs []error
		held bool
	}{
		{[]error{nil, nil}, true},
		{[]error{late, late}, true},
		{[]error{late, late}, true},
		{[]error{nil, late}, true}, // one has been asked again a moment before the other
		{[]error{late, late}, true},
		{[]error{nil, nil}, true},
		{[]error{nil, late}, true},
		{[]error{nil, late}, false}, // it hangs
	}
	for i, look := range looks {
		m.judge(time.Now(), look.errs)
		if held := len(m.held.open) > 0; held != look.held {
			t.Fatalf("look %d: the connections are held: %t, want %t", i, held, look.held)
		}
		if got, want := len(m.client.Endpoints()) == 1, slices.Contains(look.errs, nil) && slices.Contains(look.errs, late); got != want {
			t.Errorf("look %d: one is asked in place of the other: %t, want %t", i, got, want)
		}
	}
}

// What the looks say of the members is what the client goes by, also where its first request comes at the same time.
func TestMembersFirstRequest(t *testing.T) {
	for range 20 {
		m := judged(t, DialConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = m.client.Get(ctx, "x") })
		m.judge(time.Now(), []error{nil, context.DeadlineExceeded})
		m.judge(time.Now(), []error{nil, nil})
		cancel()
		first.Wait()
	}
}

// A member that is late at every other look is in the log once a minute, and one that stays away after that too.
func TestMembersHover(t *testing.T) {
	log := &bytes.Buffer{}
	m := judged(t, DialConfig{Logger: slog.New(slog.NewTextHandler(log, nil))})
	lines := func(text string) int { return strings.Count(log.String(), text) }
	now := time.Now()
	look := func(second error) {
		now = now.Add(time.Second)
		m.judge(now, []error{nil, second})
	}
	const minutes = 3
	for range minutes * 30 {
		look(context.DeadlineExceeded)
		look(nil)
	}
	if out, in := lines("does not answer"), lines("answers again"); out != minutes || in != minutes {
		t.Errorf("in %d minutes the log says %d times that it does not answer, and %d times that it does", minutes, out, in)
	}
	look(context.DeadlineExceeded) // a minute after the last line
	look(nil)
	log.Reset()
	for range 90 {
		look(context.DeadlineExceeded)
	}
	look(nil)
	if out, in := lines("does not answer"), lines("after=1m30s"); out != 1 || in != 1 {
		t.Errorf("of one that is away for some time the log says %q", log)
	}
}

// The scheme of an endpoint says how it is spoken to, and what follows it what its connections are known by, as for etcd's client.
func TestEndpoints(t *testing.T) {
	ca := &tls.Config{MinVersion: tls.VersionTLS12}
	tests := []struct {
		endpoint       string
		secured        *tls.Config // by other endpoints
		authority, say string
	}{
		{"h:1", nil, "h:1", "insecure"},
		{"h:1", ca, "h:1", "tls"},
		{"http://h:1", ca, "h:1", "insecure"},
		{"HTTP://h:1", ca, "h:1", "insecure"},
		{"https://h:1/", nil, "h:1", "tls"},
		{"HTTPS://[::1]:1", nil, "[::1]:1", "tls"},
		{"https://h:1?a=b", nil, "h:1", "tls"},
		{"unix:///h", nil, "", "insecure"},
	}
	for _, tc := range tests {
		c := DialConfig{Endpoints: []string{tc.endpoint}}
		secured, err := c.prepare()
		if err != nil {
			t.Errorf("%s: %v", tc.endpoint, err)
			continue
		}
		if secured == nil {
			secured = tc.secured
		}
		if got := c.credentials(secured).Info().SecurityProtocol; got != tc.say {
			t.Errorf("%s: spoken to is %s, want %s", tc.endpoint, got, tc.say)
		}
		if got := authority(tc.endpoint); got != tc.authority {
			t.Errorf("%s: its connections are %q's, want %q", tc.endpoint, got, tc.authority)
		}
	}
}
