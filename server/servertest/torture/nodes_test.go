//go:build unix

package torture_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// node is one etcd.
type node struct {
	*process
	// address of its clients, without what is between.
	address string
	// client and peers are what is between it and weir, and it and the other members. nil: nothing.
	client, peers *proxy
	// id is how it names itself to the other members.
	id string
}

// newNodes makes the members of an etcd cluster; they do not run yet.
func newNodes(t *testing.T, p *plan, dir string) []*node {
	binary := etcdFor(t)
	nodes := make([]*node, p.etcds)
	var cluster []string
	peerPorts := make([]int, p.etcds)
	for i := range nodes {
		n := &node{address: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
		peerPorts[i] = freePort(t)
		peer := fmt.Sprintf("127.0.0.1:%d", peerPorts[i])
		if p.etcds > 1 {
			n.peers = newProxy(t, peer, raftSource)
			peer = n.peers.address()
		}
		if p.etcdProxy {
			n.client = newProxy(t, n.address, nil)
		}
		cluster = append(cluster, fmt.Sprintf("e%d=http://%s", i, peer))
		nodes[i] = n
	}
	for i, n := range nodes {
		_, peer, _ := strings.Cut(cluster[i], "=")
		args := []string{"--name", fmt.Sprintf("e%d", i), "--data-dir", filepath.Join(dir, fmt.Sprintf("etcd%d", i)),
			"--listen-client-urls", "http://" + n.address, "--advertise-client-urls", "http://" + n.address,
			"--listen-peer-urls", fmt.Sprintf("http://127.0.0.1:%d", peerPorts[i]), "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(cluster, ","), "--log-level", "warn"}
		if !p.fsync {
			args = append(args, "--unsafe-no-fsync")
		}
		n.process = newProcess(t, fmt.Sprintf("etcd%d", i), binary, t.TempDir(), append(args, p.etcdArgs...)...)
	}
	return nodes
}

// reach is the address that weir is given.
func (n *node) reach() string {
	if n.client != nil {
		return "http://" + n.client.address()
	}
	return "http://" + n.address
}

// identify learns the members' ids.
func identify(ctx context.Context, nodes []*node) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{nodes[0].address}})
	if err != nil {
		return err
	}
	defer client.Close()
	resp, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range resp.Members {
		for i, n := range nodes {
			if m.Name == fmt.Sprintf("e%d", i) {
				n.id = strconv.FormatUint(m.ID, 16)
			}
		}
	}
	return nil
}

// server is one weir serve.
type server struct {
	*process
	dir  string
	port int
	// proxy is between it and its clients, nil where there is none.
	proxy *proxy
	// etcd is the address of the etcd within, "" where it has none.
	etcd string
	tls  *tls.Config
}

// newServer makes a server that does not run yet.
func newServer(t *testing.T, p *plan, dir string, i int, nodes []*node) *server {
	s := &server{dir: filepath.Join(dir, fmt.Sprintf("weir%d", i)), port: freePort(t)}
	args := []string{"serve", "--data-dir", s.dir, "--secure-port", strconv.Itoa(s.port), "--consistency-check-interval", "1s"}
	if len(nodes) == 0 {
		s.etcd = fmt.Sprintf("127.0.0.1:%d", freePort(t))
		args = append(args, "--embedded-etcd-listen", s.etcd)
		if !p.fsync {
			args = append(args, "--unsafe-no-fsync")
		}
	} else {
		var reach []string
		for _, n := range nodes {
			reach = append(reach, n.reach())
		}
		args = append(args, "--etcd-servers", strings.Join(reach, ","))
	}
	if p.clientProxy {
		s.proxy = newProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port), nil)
	}
	s.process = newProcess(t, fmt.Sprintf("weir%d", i), weirFor(t), t.TempDir(), append(args, p.weirArgs...)...)
	return s
}

// endpoint is how clients reach the server, once it has run.
func (s *server) endpoint(direct bool) endpoint {
	address := fmt.Sprintf("127.0.0.1:%d", s.port)
	if s.proxy != nil && !direct {
		address = s.proxy.address()
	}
	return endpoint{name: s.name, url: "https://" + address, tls: s.tls}
}

// ready waits until the server says so.
func (s *server) ready(ctx context.Context) error {
	return eventually(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		if s.pid() == 0 {
			return fmt.Errorf("%s does not run", s.name)
		}
		if s.tls == nil {
			config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
			if err != nil {
				return err
			}
			if s.tls, err = rest.TLSConfigFor(config); err != nil {
				return err
			}
		}
		c := newClient([]endpoint{s.endpoint(true)}, 0)
		defer c.close()
		code, answer, err := c.ask(ctx, http.MethodGet, "/readyz", "")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%s: %d %s", s.name, code, answer.Message)
		}
		return err
	})
}

// complaints are the lines of the log that no fault excuses.
func (s *server) complaints() (lines []string) {
	for line := range strings.Lines(s.tail(1 << 20)) {
		for _, word := range []string{"watch cache differs", "DATA RACE", "goroutine stack exceeds", "nil pointer dereference", "http: panic", "concurrent map"} {
			if strings.Contains(line, word) {
				lines = append(lines, strings.TrimSpace(line))
				break
			}
		}
	}
	return lines
}
