package torture_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// requestTime bounds a request that is not a watch.
	requestTime = 15 * time.Second
	// pingAfter and pingTime find connections that are dead without a word.
	pingAfter, pingTime = 2 * time.Second, 2 * time.Second
)

// endpoint is a server as clients reach it, perhaps through a proxy.
type endpoint struct {
	name, url string
	tls       *tls.Config
}

// client speaks HTTP/2 to one of several servers, over connections of its own.
type client struct {
	endpoints []endpoint
	https     []*http.Client
	at        int
}

// newClient returns a client that begins at one of the endpoints.
func newClient(endpoints []endpoint, at int) *client {
	c := &client{endpoints: endpoints, https: make([]*http.Client, len(endpoints)), at: at % len(endpoints)}
	for i, e := range endpoints {
		c.https[i] = &http.Client{Transport: transport(e, &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTime})}
	}
	return c
}

func transport(e endpoint, h2 *http.HTTP2Config) *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetHTTP2(true)
	return &http.Transport{
		TLSClientConfig: e.tls.Clone(), Protocols: protocols,
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		TLSHandshakeTimeout: 3 * time.Second, HTTP2: h2,
	}
}

// smallBuffer is what a connection takes in that nobody reads from.
const smallBuffer = 64 << 10

// narrow has the client take in little that it does not read: by the flow control of HTTP/2, or with HTTP/1.1 by that
// of TCP.
func (c *client) narrow(http1 bool) {
	for i, e := range c.endpoints {
		t := transport(e, &http.HTTP2Config{MaxReceiveBufferPerStream: smallBuffer, MaxReceiveBufferPerConnection: smallBuffer})
		if http1 {
			t.Protocols = &http.Protocols{}
			t.Protocols.SetHTTP1(true)
		}
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(smallBuffer)
			}
			return conn, err
		}
		c.https[i] = &http.Client{Transport: t}
	}
}

func (c *client) close() {
	for _, h := range c.https {
		h.CloseIdleConnections()
	}
}

// server is the name of the server that is asked now.
func (c *client) server() string { return c.endpoints[c.at].name }

// move goes on to the next server.
func (c *client) move() { c.at = (c.at + 1) % len(c.endpoints) }

// open begins a request. The caller closes the body.
func (c *client) open(ctx context.Context, method, path, body string) (*http.Response, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.endpoints[c.at].url+path, reader)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // a request is sent once
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	return c.https[c.at].Do(req)
}

// ask makes a request and reads the answer.
func (c *client) ask(ctx context.Context, method, path, body string) (code int, answer wire, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resp, err := c.open(ctx, method, path, body)
	if err != nil {
		return 0, wire{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, wire{}, err
	}
	if answer, err = parse(data); err != nil {
		return resp.StatusCode, wire{Message: fmt.Sprintf("%.200s", data)}, nil
	}
	return resp.StatusCode, answer, nil
}

// text reads an answer that is no object.
func (c *client) text(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	resp, err := c.open(ctx, http.MethodGet, path, "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d", path, resp.StatusCode)
	}
	return string(data), err
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// eventually repeats what until it returns nil, and gives its last error when ctx is done.
func eventually(ctx context.Context, every time.Duration, what func(context.Context) error) error {
	for {
		err := what(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		pause(ctx, every)
	}
}
