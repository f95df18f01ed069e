package etcd3

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"

	"google.golang.org/grpc/credentials"
)

// heldConns are the connections of a client, to be closed by the member that they lead to. gRPC has no call for that: one whose
// address it is given no more is kept until all that waits for an answer has it.
type heldConns struct {
	mu   sync.Mutex
	open map[*heldConn]struct{} // guarded by mu
}

// heldConn is one of them.
type heldConn struct {
	net.Conn
	// raw is below TLS, whose Close would wait to say good-bye to one that does not read.
	raw net.Conn
	of  *heldConns
	to  string
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes those to an authority.
func (h *heldConns) close(to string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		if c.to == to {
			delete(h.open, c)
			_ = c.raw.Close()
		}
	}
}

// authority is by what a connection to an endpoint is known; "" for a socket of this machine.
func authority(endpoint string) string {
	if strings.HasPrefix(endpoint, "unix:") || strings.HasPrefix(endpoint, "unixs:") {
		return ""
	}
	if !strings.Contains(endpoint, "://") {
		return endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil { // ValidEndpoint refuses it
		return endpoint
	}
	return u.Host
}

// holding are credentials that hold the connections on which they have shaken hands.
type holding struct {
	credentials.TransportCredentials
	held *heldConns
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *holding) ClientHandshake(ctx context.Context, to string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, to, raw)
	if err != nil {
		return conn, info, err
	}
	held := &heldConn{conn, raw, c.held, to}
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	c.held.open[held] = struct{}{}
	return held, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *holding) Clone() credentials.TransportCredentials {
	return &holding{c.TransportCredentials.Clone(), c.held}
}
