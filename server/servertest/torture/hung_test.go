//go:build unix

package torture_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// hungWithin is after how long everything goes on as before a member was stopped. It takes some five seconds where the
	// machine has nothing else to do.
	hungWithin = 12 * time.Second
	// hungFor is how long it is stopped.
	hungFor = 20 * time.Second
)

// asked is a request of a client.
type asked struct {
	verb       string
	began, end time.Duration // since the member was stopped
	code       int
	err        error
}

// TestHungMember: a member of three that is stopped, and so keeps its connections and answers nothing, delays requests by some
// seconds; all reads are answered, and the log names it, when it goes and when it is back. So with a follower and the leader.
func TestHungMember(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts processes")
	}
	p := &plan{etcds: 3}
	dir := t.TempDir()
	nodes := newNodes(t, p, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, n := range nodes {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(t, p, dir, 0, nodes)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if err := s.ready(ctx); err != nil {
		t.Fatal(err)
	}
	for _, leads := range []bool{false, true} {
		name := map[bool]string{false: "follower", true: "leader"}[leads]
		t.Run(name, func(t *testing.T) { hangMember(ctx, t, s, nodes, leads, name) })
	}
}

func hangMember(ctx context.Context, t *testing.T, s *server, nodes []*node, leads bool, name string) {
	n, err := memberThat(ctx, nodes, leads)
	if err != nil {
		t.Fatal(err)
	}
	said := len(s.tail(1 << 20))
	// log returns the lines about the member since then.
	log := func(text string) (lines []string) {
		for line := range strings.Lines(s.tail(1 << 20)[said:]) {
			if strings.Contains(line, text) && strings.Contains(line, n.address) {
				lines = append(lines, line)
			}
		}
		return lines
	}

	var mu sync.Mutex
	var all []asked // guarded by mu
	began := time.Now()
	n.stop()
	defer n.cont()
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			c := newClient([]endpoint{s.endpoint(true)}, 0)
			defer c.close()
			for j := 0; time.Since(began) < hungFor; j++ {
				object := fmt.Sprintf("%s-%d-%d", name, i, j)
				for _, r := range []struct{ verb, method, path, body string }{
					{"create", http.MethodPost, "/api/v1/namespaces/default/configmaps",
						`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + object + `"}}`},
					{"get", http.MethodGet, "/api/v1/namespaces/default/configmaps/" + object, ""},
					{"list", http.MethodGet, "/api/v1/namespaces/default/configmaps?limit=5", ""},
				} {
					a := asked{verb: r.verb, began: time.Since(began)}
					a.code, _, a.err = c.ask(ctx, r.method, r.path, r.body)
					a.end = time.Since(began)
					mu.Lock()
					all = append(all, a)
					mu.Unlock()
				}
				pause(ctx, 20*time.Millisecond)
			}
		})
	}
	clients.Wait()

	late, longest := 0, time.Duration(0)
	for _, a := range all {
		longest = max(longest, a.end-a.began)
		if a.began > hungWithin {
			late++
			if a.err != nil || a.code >= http.StatusInternalServerError || a.end-a.began > hungWithin/2 {
				t.Errorf("%s after %s took %s: %d %v", a.verb, a.began, a.end-a.began, a.code, a.err)
			}
		}
		if a.end > hungWithin && a.began <= hungWithin && a.end-a.began > hungWithin {
			t.Errorf("%s after %s took %s: %d %v", a.verb, a.began, a.end-a.began, a.code, a.err)
		}
		// While an election goes on nobody can answer.
		if !leads && a.verb != "create" && (a.err != nil || a.code >= http.StatusInternalServerError) {
			t.Errorf("%s after %s took %s: %d %v", a.verb, a.began, a.end-a.began, a.code, a.err)
		}
	}
	if late < 6 {
		t.Errorf("%d requests in the last %s of %d", late, hungFor-hungWithin, len(all))
	}
	t.Logf("%d requests, %d of them in the last %s, the longest took %s", len(all), late, hungFor-hungWithin, longest)

	if lines := log("etcd member does not answer"); len(lines) != 1 {
		t.Errorf("the log says %q, want one line about %s", lines, n.address)
	}
	c := newClient([]endpoint{s.endpoint(true)}, 0)
	defer c.close()
	if text, err := c.text(ctx, "/readyz/etcd"); err != nil || !strings.Contains(text, "warning") || !strings.Contains(text, n.address) {
		t.Errorf("/readyz/etcd: %q, %v; want a warning about %s", text, err, n.address)
	}
	series := fmt.Sprintf("weir_etcd_member_answers{endpoint=%q,etcd=%q} ", n.reach(), "etcd")
	if text, err := c.text(ctx, "/metrics"); err != nil || !strings.Contains(text, series+"0") {
		t.Errorf("/metrics has no %s0, %v", series, err)
	}
	n.cont()
	again, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := eventually(again, 50*time.Millisecond, func(context.Context) error {
		if lines := log("etcd member answers again"); len(lines) != 1 {
			return fmt.Errorf("the log says %q, want one line about %s", lines, n.address)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// memberThat returns a member that leads, or one that does not.
func memberThat(ctx context.Context, nodes []*node, leads bool) (*node, error) {
	for _, n := range nodes {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{n.address}})
		if err != nil {
			return nil, err
		}
		status, err := client.Status(ctx, n.address)
		_ = client.Close()
		if err != nil {
			return nil, err
		}
		if (status.Leader == status.Header.MemberId) == leads {
			return n, nil
		}
	}
	return nil, errors.New("no such member")
}
